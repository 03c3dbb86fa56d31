"""Huge pages for a server that exists: what it needs, what the host has, what would go wrong, done and undone.

needed and stopped (ask the server) · pool and boot (what the host has) · seen (the postmaster in /proc) · groups and
limits (what refuses) · savings (page tables) · advice (what to write where) · plan, apply, verify: one document each.
"""
