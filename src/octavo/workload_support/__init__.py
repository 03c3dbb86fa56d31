"""What several workloads use: PostgreSQL's pgbench, a user's files, plans, memory. No workload itself."""
