"""Other hosts: the file that lists them, and commands that run there over SSH."""
