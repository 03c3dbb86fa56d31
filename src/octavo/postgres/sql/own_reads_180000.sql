-- What this session asked to read of relations; with parallel workers, theirs as well (they have left by then).
SELECT sum(reads)::float8 AS reads, sum(read_bytes)::float8 AS read_bytes
FROM (
    SELECT reads, read_bytes FROM pg_stat_get_backend_io(pg_backend_pid()) WHERE object = 'relation'
    UNION ALL
    SELECT reads, read_bytes FROM pg_stat_io
    WHERE %(workers)s AND backend_type = 'background worker' AND object = 'relation'
) AS counted
