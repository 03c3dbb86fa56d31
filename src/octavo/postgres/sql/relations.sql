-- The largest tables and indexes that users made, oids from FirstNormalObjectId on (src/include/access/transam.h); a
-- table's TOAST data is a relation of its own.
SELECT regexp_replace(c.oid::regclass::text, '^public\.', '') AS item, pg_relation_size(c.oid)::float8 AS bytes
FROM pg_class AS c
WHERE c.relkind IN ('r', 'i', 't', 'm') AND c.relpersistence <> 't' AND c.oid >= 16384
ORDER BY c.relpages DESC, c.oid
LIMIT 20
