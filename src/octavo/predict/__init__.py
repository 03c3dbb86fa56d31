"""What another page size would do to a recorded workload: trace → simulation → models → document → advice."""
