-- Blocks that were asked of the kernel since the statistics were reset. Before 16 a block is a request.
SELECT coalesce(sum(blks_read), 0)::bigint AS reads,
       coalesce(sum(blks_read), 0)::bigint * current_setting('block_size')::bigint AS read_bytes
FROM pg_stat_database
