"""The host: facts that are read, and what is changed with a journal that puts it back."""
