-- By the beginning of their texts, which is what a report can show; statements that begin alike are one.
SELECT left(regexp_replace(query, '\s+', ' ', 'g'), 100) AS item, sum(calls)::float8 AS calls,
       sum(total_exec_time)::float8 AS milliseconds, sum(shared_blks_hit)::float8 AS hits,
       sum(shared_blks_read)::float8 AS reads,
       sum(temp_blks_read + temp_blks_written)::float8 AS temporary, sum(wal_bytes)::float8 AS wal_bytes
FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND queryid IS NOT NULL
  AND query NOT LIKE 'SET pg_stat_statements.track%'
GROUP BY 1
