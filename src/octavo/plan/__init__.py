"""Plans: the question as TOML, its factors and levels, the resulting cells, and their order."""
