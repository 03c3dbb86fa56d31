"""PostgreSQL from source to a server with data: source, build, cluster, dataset. Imports nothing above it but host."""
