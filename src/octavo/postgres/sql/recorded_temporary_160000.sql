-- Lookups of pages of temporary tables: recorded_work's include them, but such pages are not in shared buffers.
SELECT sum(coalesce(hits, 0) + coalesce(reads, 0))::float8 AS temporary_lookups
FROM pg_stat_io
WHERE object = 'temp relation'
