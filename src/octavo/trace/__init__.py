"""Recorded page accesses of a server, and the simulation of other cache and page sizes on them."""
