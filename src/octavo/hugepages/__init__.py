"""Huge pages for an existing server: its need, the host's pools, obstacles, applying and undoing.

needed and stopped (ask the server) · pool and boot (what the host has) · seen (the postmaster in /proc) · groups and
limits (what refuses) · savings (page tables) · advice (what to write where) · plan, apply, verify: one document each.
"""
