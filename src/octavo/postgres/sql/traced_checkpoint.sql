-- The last checkpoint that has ended: where it began, and how long ago that was.
SELECT (redo_lsn - '0/0'::pg_lsn)::bigint AS position,
       extract(epoch FROM clock_timestamp() - checkpoint_time)::float8 AS seconds
FROM pg_control_checkpoint()
WHERE NOT pg_is_in_recovery()
