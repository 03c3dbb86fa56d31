"""The plans that come with Octavo."""
