-- The same without a row for each buffer; an unused buffer has usage count 0, as one that the clock sweep passed.
SELECT usage_count AS usage, buffers::bigint AS buffers, dirty::bigint AS dirty
FROM {schema}.pg_buffercache_usage_counts()
