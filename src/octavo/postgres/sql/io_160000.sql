-- Requests of each kind of backend for relations; one request is one block (op_bytes).
SELECT backend_type AS item, sum(coalesce(reads, 0))::float8 AS reads,
       sum(coalesce(reads, 0) * op_bytes)::float8 AS read_bytes,
       sum(coalesce(writes, 0))::float8 AS writes, sum(coalesce(writes, 0) * op_bytes)::float8 AS written_bytes,
       sum(coalesce(extends, 0) * op_bytes)::float8 AS extended_bytes,
       sum(coalesce(evictions, 0))::float8 AS evictions
FROM pg_stat_io
GROUP BY backend_type
HAVING sum(coalesce(reads, 0) + coalesce(writes, 0) + coalesce(extends, 0)) > 0
