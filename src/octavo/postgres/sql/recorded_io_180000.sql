-- What all backends did to pages of relations: reads of blocks are recorded_work's. Since 18 an extension by several
-- pages is one operation, so that pages follow from its bytes.
SELECT sum(evictions)::float8 AS evictions, sum(writes)::float8 AS writes,
       (sum(extend_bytes) / current_setting('block_size')::int)::float8 AS extends
FROM pg_stat_io
WHERE object = 'relation'
