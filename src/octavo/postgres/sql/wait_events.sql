-- What active sessions wait for now, this one aside.
SELECT coalesce(wait_event_type || ':' || wait_event, 'running') AS event, count(*) AS sessions
FROM pg_stat_activity
WHERE state = 'active' AND backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()
GROUP BY 1
