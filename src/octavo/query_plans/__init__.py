"""Plans chosen at one page size and forced at the others: the effect of the page, and that of the plan."""
