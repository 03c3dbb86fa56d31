-- What large sequential scans have read by their own ring of buffers, and written because a page in it was dirty.
SELECT coalesce(sum(reads), 0)::bigint AS reads, coalesce(sum(reads * op_bytes), 0)::bigint AS read_bytes,
       coalesce(sum(writes), 0)::bigint AS writes
FROM pg_stat_io
WHERE context = 'bulkread' AND object = 'relation'
