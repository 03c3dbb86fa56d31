-- How much WAL there is since the last checkpoint that has ended began.
SELECT (pg_current_wal_insert_lsn() - redo_lsn)::bigint AS bytes
FROM pg_control_checkpoint()
WHERE NOT pg_is_in_recovery()
