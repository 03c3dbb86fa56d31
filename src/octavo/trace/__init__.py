"""Recorded page accesses of a server, and simulations of other cache and page sizes on them."""
