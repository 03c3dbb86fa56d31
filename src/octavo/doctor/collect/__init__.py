"""The sources of facts: the host's /proc and /sys, the server's views, and a second reading of both after a few
seconds.

host (memory, huge pages, CPU) · storage (filesystem and disk) · processes (the server's, in /proc) · server (one
read-only transaction) · stopped (a cluster that does not run) · live (differences) · find (servers of this host). Each
returns a list of facts; a fact that cannot be read contains the reason.
"""
