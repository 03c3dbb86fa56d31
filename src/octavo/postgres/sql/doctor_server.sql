-- What the doctor asks of the server as a whole. pg_stat_database counts every session of a database; what state each
-- is in needs pg_read_all_stats, which is in pg_monitor.
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int AS version_number,
       pg_is_in_recovery() AS in_recovery,
       (SELECT sum(numbackends) FROM pg_stat_database)::int AS connections,
       (SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND state = 'idle')::int AS idle_connections,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
       (SELECT array_agg(name ORDER BY name) FROM pg_settings WHERE pending_restart) AS pending
