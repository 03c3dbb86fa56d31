SELECT count(*) AS clients FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
