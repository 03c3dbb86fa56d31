"""The host: facts, which are only read, and changes, which a journal undoes."""
