-- Requests for relations that were made of the kernel since the statistics were reset; one is one block (op_bytes).
SELECT coalesce(sum(reads), 0)::bigint AS reads, coalesce(sum(reads * op_bytes), 0)::bigint AS read_bytes
FROM pg_stat_io
