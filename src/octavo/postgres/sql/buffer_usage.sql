-- Buffers of shared_buffers by usage count, and how many of them are dirty; an unused buffer has no usage count.
SELECT usagecount AS usage, count(*)::bigint AS buffers, (count(*) FILTER (WHERE isdirty))::bigint AS dirty
FROM {schema}.pg_buffercache
GROUP BY usagecount
