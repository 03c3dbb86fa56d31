-- WAL since the statistics were reset.
SELECT wal_records::bigint AS records, wal_fpi::bigint AS full_page_images, wal_bytes::bigint AS bytes,
       extract(epoch FROM now() - stats_reset)::float8 AS seconds
FROM pg_stat_wal
