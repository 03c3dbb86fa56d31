-- Bytes that workers were asked to move and have not yet, by the process that asked. Needs pg_read_all_stats.
SELECT pid, sum(length)::bigint AS bytes
FROM pg_aios
WHERE state = 'SUBMITTED' AND NOT f_sync
GROUP BY pid
