-- Every relation of the schema through shared buffers, so that both caches are filled in the same order.
SELECT coalesce(sum(pg_prewarm(oid, 'buffer')), 0)::bigint AS blocks
FROM (SELECT oid FROM pg_class
      WHERE relkind IN ('r', 'i', 't', 'm') AND relnamespace = 'public'::regnamespace
      ORDER BY relkind DESC, oid) AS relations
