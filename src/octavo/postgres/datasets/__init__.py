"""Datasets: a load made once, kept pristine in a cache, and grafted into each trial's cluster."""
