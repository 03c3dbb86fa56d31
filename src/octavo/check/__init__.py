"""PostgreSQL's own tests against a finished build, and the limits that its block size imposes."""
