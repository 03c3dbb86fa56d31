"""Where facts are from: the host's /proc and /sys, the server's views, both again a few seconds later.

host (memory, huge pages, CPU) · storage (filesystem and disk) · processes (the server's, in /proc) · server (one
read-only transaction) · stopped (a cluster that does not run) · live (differences) · find (servers of this host).
Each gives a list of facts; what cannot be read is a fact that says why.
"""
