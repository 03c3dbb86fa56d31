-- What all databases did since the server's counters began: lookups of pages in shared_buffers, and transactions.
SELECT sum(blks_hit + blks_read)::bigint AS lookups, sum(blks_hit)::bigint AS hits, sum(blks_read)::bigint AS reads,
       sum(xact_commit + xact_rollback)::bigint AS transactions
FROM pg_stat_database
