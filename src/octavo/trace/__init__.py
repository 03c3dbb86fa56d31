"""Page accesses of a server, recorded, and what caches of other sizes and pages would have done with them."""
