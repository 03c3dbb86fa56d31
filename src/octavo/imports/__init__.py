"""Imports results measured elsewhere into the store as ordinary runs: one file for each format."""
