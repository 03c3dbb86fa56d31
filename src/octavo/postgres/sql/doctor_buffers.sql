-- Where pg_buffercache is, and how many buffers it would list. An extension's own schema: a view of that name elsewhere
-- may be anybody's.
SELECT (SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'pg_buffercache') AS schema,
       (SELECT setting FROM pg_settings WHERE name = 'shared_buffers')::bigint AS buffers,
       current_setting('block_size')::bigint AS block,
       (SELECT setting FROM pg_settings WHERE name = 'segment_size')::bigint
           * current_setting('block_size')::bigint AS segment
