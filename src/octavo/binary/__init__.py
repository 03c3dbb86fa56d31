"""What is in a program: its architecture, atomic instructions, compiler and flags (crates/octavo-core: binary)."""
