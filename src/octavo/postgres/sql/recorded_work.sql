-- What all databases did since the server's counters began, and how many clients are connected beside this one.
SELECT sum(xact_commit + xact_rollback)::float8 AS transactions,
       (sum(active_time + idle_in_transaction_time) / 1000)::float8 AS session_seconds,
       sum(blks_read)::float8 AS reads, sum(blks_hit + blks_read)::float8 AS lookups,
       (SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())::float8 AS clients
FROM pg_stat_database
