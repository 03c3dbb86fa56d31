"""Code shared by workloads: PostgreSQL's pgbench, a user's files, plans, memory."""
