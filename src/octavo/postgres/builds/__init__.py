"""Builds of PostgreSQL at every size: content-addressed, complete or absent, one builder at a time per build."""
