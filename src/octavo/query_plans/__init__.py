"""Plans that the planner chose at one page size, forced at the others: what the page costs, and what the plan."""
