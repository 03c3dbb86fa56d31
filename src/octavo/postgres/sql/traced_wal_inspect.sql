-- The schema of pg_walinspect in this database, where this user may call it and WAL can be read that far; and whether it
-- has pg_get_wal_block_info (16 or later), which names every image.
SELECT quote_ident(n.nspname) AS schema, bool_or(p.proname = 'pg_get_wal_block_info') AS has_blocks
FROM pg_extension AS e
JOIN pg_namespace AS n ON n.oid = e.extnamespace
JOIN pg_depend AS d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
WHERE e.extname = 'pg_walinspect' AND p.proname IN ('pg_get_wal_stats', 'pg_get_wal_block_info')
  AND has_schema_privilege(n.oid, 'usage') AND has_function_privilege(p.oid, 'execute') AND NOT pg_is_in_recovery()
GROUP BY n.nspname
HAVING bool_or(p.proname = 'pg_get_wal_stats')
