-- The schema of pg_buffercache in this database, where this user may read it.
SELECT quote_ident(n.nspname) AS schema
FROM pg_extension AS e
JOIN pg_namespace AS n ON n.oid = e.extnamespace
JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'pg_buffercache'
WHERE e.extname = 'pg_buffercache' AND has_schema_privilege(n.oid, 'usage') AND has_table_privilege(c.oid, 'select')
