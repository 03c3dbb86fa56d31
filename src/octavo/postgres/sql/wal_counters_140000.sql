-- The insert position counts everything that enters the stream, page headers included. Writes are pages' writes, of
-- unknown size, so what was written is not known.
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
        - '0/0'::pg_lsn)::float8 AS position,
       wal_records::float8 AS records, wal_fpi::float8 AS full_page_images, wal_bytes::float8 AS record_bytes,
       wal_write::float8 AS writes, wal_sync::float8 AS syncs, wal_buffers_full::float8 AS buffers_full
FROM pg_stat_wal
