"""The command line: parses, calls, prints. No logic."""
