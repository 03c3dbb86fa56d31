-- What `octavo hugepages` asks a running server: its shared memory, and how it was told to page it. From 15 on.
SELECT current_setting('server_version') AS version,
       pg_size_bytes(current_setting('shared_memory_size')) AS shared_memory,
       current_setting('shared_memory_size_in_huge_pages')::bigint AS in_huge_pages,
       pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers,
       current_setting('huge_pages') AS huge_pages,
       current_setting('huge_pages_status', true) AS huge_pages_status,
       pg_size_bytes(current_setting('huge_page_size')) AS huge_page_size,
       current_setting('shared_memory_type') AS shared_memory_type,
       current_setting('max_connections')::int AS max_connections,
       (SELECT sum(numbackends) FROM pg_stat_database)::int AS connections,
       (SELECT array_agg(name ORDER BY name) FROM pg_settings WHERE pending_restart) AS pending
