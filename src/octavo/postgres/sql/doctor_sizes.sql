-- All databases together. It looks at every file, so it may be cut off by its time limit; it needs CONNECT on each
-- database, or pg_read_all_stats.
SELECT sum(pg_database_size(oid))::bigint AS bytes FROM pg_database WHERE datallowconn
