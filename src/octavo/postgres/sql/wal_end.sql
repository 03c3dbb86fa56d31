-- How far the WAL can be read from its files, and what those are cut into.
SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint AS position,
       substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8) AS timeline,
       current_setting('wal_block_size')::bigint AS block,
       (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size') AS segment
