"""Octavo, the page-size laboratory for PostgreSQL."""

__version__ = "0.1.0"
