"""One run on many hosts, on Dask distributed: the coordinator assigns rounds, the hosts measure them, and the
coordinator analyses them."""
