-- Requests of each kind of backend for relations and temporary relations; the WAL's are in wal_counters.
SELECT backend_type AS item, sum(coalesce(reads, 0))::float8 AS reads,
       sum(coalesce(read_bytes, 0))::float8 AS read_bytes,
       sum(coalesce(writes, 0))::float8 AS writes, sum(coalesce(write_bytes, 0))::float8 AS written_bytes,
       sum(coalesce(extend_bytes, 0))::float8 AS extended_bytes,
       sum(coalesce(evictions, 0))::float8 AS evictions
FROM pg_stat_io
WHERE object <> 'wal'
GROUP BY backend_type
HAVING sum(coalesce(reads, 0) + coalesce(writes, 0) + coalesce(extends, 0)) > 0
