"""Results that others measured, brought into the store as runs like any other: one file for each format."""
