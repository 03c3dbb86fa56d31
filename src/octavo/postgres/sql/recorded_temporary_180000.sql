-- Lookups of pages of temporary tables: recorded_work's include them, but such pages are not in shared buffers. Since 18
-- a read of several pages is one operation, so that pages follow from its bytes.
SELECT (sum(coalesce(hits, 0)) + sum(coalesce(read_bytes, 0)) / current_setting('block_size')::int)::float8
       AS temporary_lookups
FROM pg_stat_io
WHERE object = 'temp relation'
