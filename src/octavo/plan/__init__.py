"""Plans: the question as TOML, its factors and levels, the cells they make, the order they run in."""
