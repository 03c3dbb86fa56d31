-- The insert position counts everything that enters the stream, page headers included. What was written of it, a page
-- that fills slowly several times, is in pg_stat_io.
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
        - '0/0'::pg_lsn)::float8 AS position,
       wal_records::float8 AS records, wal_fpi::float8 AS full_page_images, wal_bytes::float8 AS record_bytes,
       io.writes, io.written_bytes, io.syncs, wal_buffers_full::float8 AS buffers_full
FROM pg_stat_wal,
     (SELECT sum(coalesce(writes, 0))::float8 AS writes, sum(coalesce(write_bytes, 0))::float8 AS written_bytes,
             sum(coalesce(fsyncs, 0))::float8 AS syncs
      FROM pg_stat_io
      WHERE object = 'wal' AND context = 'normal') AS io
