"""What the planner's cost settings really are here: measured by small queries, fitted, as postgresql.conf lines."""
