-- The relations of this database and the shared ones, as files name them: relfilenode, tablespace, database.
-- relpages is negative from 2^31 pages on.
SELECT CASE WHEN c.reltablespace = 0 THEN d.dattablespace ELSE c.reltablespace END::bigint AS tablespace,
       CASE WHEN c.relisshared THEN 0 ELSE d.oid END::bigint AS database,
       pg_relation_filenode(c.oid)::bigint AS relation, c.relkind::text AS kind,
       (pg_relation_size(c.oid) / current_setting('block_size')::bigint)::bigint AS blocks,
       greatest(c.reltuples, 0)::bigint AS tuples,
       CASE WHEN c.reltuples > 0
            THEN ((c.relpages & 4294967295) * current_setting('block_size')::float8 / c.reltuples)::bigint ELSE 0
       END AS tuple_bytes,
       coalesce((SELECT option_value::bigint FROM pg_options_to_table(c.reloptions)
                 WHERE option_name = 'fillfactor'), 0) AS fillfactor,
       regexp_replace(c.oid::regclass::text, '^public\.', '') AS name
FROM pg_class AS c, pg_database AS d
WHERE d.datname = current_database() AND pg_relation_filenode(c.oid) IS NOT NULL AND c.relpersistence <> 't'
