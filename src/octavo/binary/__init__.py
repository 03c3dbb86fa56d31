"""The properties of a program: its architecture, atomic instructions, compiler and flags (crates/octavo-core:
binary)."""
