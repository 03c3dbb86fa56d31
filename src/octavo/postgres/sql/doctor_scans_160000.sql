-- What large sequential scans have read by their own ring of buffers, written because a page in it was dirty, and found
-- in shared_buffers.
SELECT coalesce(sum(reads), 0)::bigint AS reads, coalesce(sum(reads * op_bytes), 0)::bigint AS read_bytes,
       coalesce(sum(writes), 0)::bigint AS writes, coalesce(sum(hits), 0)::bigint AS hits
FROM pg_stat_io
WHERE context = 'bulkread' AND object = 'relation'
