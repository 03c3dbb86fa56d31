"""The effect of other page sizes on a recorded workload: trace → simulation → models → document → advice."""
