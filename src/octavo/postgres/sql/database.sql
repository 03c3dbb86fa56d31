-- This database's counters; the whole server's have datname null for shared objects only.
SELECT xact_commit + xact_rollback AS transactions, blks_read AS reads, blks_hit AS hits,
       blks_read + blks_hit AS lookups, blks_read * current_setting('block_size')::bigint AS read_bytes,
       tup_returned + tup_fetched AS rows_read, tup_inserted + tup_updated + tup_deleted AS rows_written,
       temp_bytes, deadlocks, numbackends AS connections
FROM pg_stat_database
WHERE datname = current_database()
