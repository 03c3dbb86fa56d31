-- This database's counters; the whole server's have datname null for shared objects only.
SELECT xact_commit + xact_rollback AS transactions, blks_read AS reads, blks_hit AS hits,
       blks_read + blks_hit AS lookups, blks_read * current_setting('block_size')::bigint AS read_bytes,
       tup_returned AS rows_returned, tup_fetched AS rows_fetched, tup_inserted AS rows_inserted,
       tup_updated AS rows_updated, tup_deleted AS rows_deleted,
       temp_bytes, numbackends AS connections
FROM pg_stat_database
WHERE datname = current_database()
