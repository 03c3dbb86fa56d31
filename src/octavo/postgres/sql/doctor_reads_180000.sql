-- Requests for relations that were made of the kernel since the statistics were reset.
-- Those of large scans (bulkread) and what the checkpointer wrote are apart. Temporary files and base backups are none
-- of these; a transaction that runs reports its reads when it ends.
SELECT coalesce(sum(reads), 0)::bigint AS reads, coalesce(sum(read_bytes), 0)::bigint AS read_bytes,
       coalesce(sum(read_bytes) FILTER (WHERE context = 'bulkread'), 0)::bigint AS scan_bytes,
       coalesce(sum(write_bytes) FILTER (WHERE backend_type = 'checkpointer'), 0)::bigint AS checkpoint_bytes,
       (SELECT coalesce(sum(temp_bytes), 0) FROM pg_stat_database)::bigint AS temporary_bytes,
       (SELECT count(*) FROM pg_stat_progress_basebackup)::int AS base_backups,
       CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN
            (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity
             WHERE state = 'active' AND pid <> pg_backend_pid()) END::float8 AS oldest_active_seconds,
       (SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer') AS checkpointer
FROM pg_stat_io
WHERE object <> 'wal'
