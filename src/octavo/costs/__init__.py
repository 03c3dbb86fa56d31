"""The planner's real costs on this host: measured by small queries, fitted, printed as postgresql.conf lines."""
