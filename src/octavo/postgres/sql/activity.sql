-- What each process of the server is doing, for `octavo iotop`. Others' queries need pg_read_all_stats. A query may be
-- a megabyte (track_activity_query_size): as much of it as a line may hold.
SELECT pid, backend_type, datname AS database, state, left(query, 1000) AS query
FROM pg_stat_activity
WHERE pid <> pg_backend_pid()
