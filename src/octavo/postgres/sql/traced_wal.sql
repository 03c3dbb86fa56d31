-- How far the WAL has been filled, page headers included, and what went into it since the server's counters began.
-- Backends report theirs once a second.
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
        - '0/0'::pg_lsn)::bigint AS position,
       wal_records::bigint AS records, wal_fpi::bigint AS full_page_images, wal_bytes::bigint AS bytes
FROM pg_stat_wal
