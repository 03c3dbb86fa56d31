-- What all backends did to pages of relations: reads of blocks are recorded_work's.
SELECT sum(evictions)::float8 AS evictions, sum(writes)::float8 AS writes, sum(extends)::float8 AS extends
FROM pg_stat_io
WHERE object = 'relation'
