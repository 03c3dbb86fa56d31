-- Checkpoints since the statistics were reset: by time, and because max_wal_size was reached (or somebody asked).
SELECT num_timed::bigint AS timed, num_requested::bigint AS requested,
       extract(epoch FROM now() - stats_reset)::float8 AS seconds
FROM pg_stat_checkpointer
