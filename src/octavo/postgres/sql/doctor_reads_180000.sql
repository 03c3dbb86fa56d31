-- Requests for relations that were made of the kernel since the statistics were reset.
SELECT coalesce(sum(reads), 0)::bigint AS reads, coalesce(sum(read_bytes), 0)::bigint AS read_bytes
FROM pg_stat_io
WHERE object <> 'wal'
