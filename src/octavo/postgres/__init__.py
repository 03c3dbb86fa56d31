"""PostgreSQL from source to a server with data: source, build, cluster, dataset. Of the packages above it imports
none."""
