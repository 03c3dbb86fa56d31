-- Everything that users made, oids from FirstNormalObjectId on (src/include/access/transam.h), through shared buffers, so
-- that both caches are filled in the same order; a table's TOAST data is a relation of its own, in another schema.
SELECT coalesce(sum(pg_prewarm(oid, 'buffer')), 0)::bigint AS blocks
FROM (SELECT oid FROM pg_class
      WHERE relkind IN ('r', 'i', 't', 'm') AND relpersistence <> 't' AND oid >= 16384
      ORDER BY relkind DESC, oid) AS relations
