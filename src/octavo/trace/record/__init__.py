"""Recording the page accesses of a live server."""
