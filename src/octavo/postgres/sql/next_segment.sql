-- Something to write, so that the switch is not skipped, then on to the next WAL segment.
SELECT pg_current_xact_id(), pg_switch_wal()
