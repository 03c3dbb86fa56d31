-- The insert position counts everything that enters the stream, page headers included.
SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint AS position,
       wal_records AS records, wal_fpi AS full_page_images, wal_bytes::bigint AS record_bytes
FROM pg_stat_wal
