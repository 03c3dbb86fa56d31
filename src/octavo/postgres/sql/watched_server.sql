-- What is said of the server at the top of `octavo watch`, and where to look for its processes. Names that this user
-- may not read (data_directory needs pg_read_all_settings) are absent from pg_settings, or null.
SELECT current_setting('server_version') AS version,
       current_setting('block_size')::bigint AS data_block,
       current_setting('wal_block_size')::bigint AS wal_block,
       pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers,
       current_setting('huge_pages') AS huge_pages,
       current_setting('huge_pages_status', true) AS huge_pages_status,
       current_setting('io_method', true) AS io_method,
       (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_directory,
       current_database() AS database,
       current_user AS "user",
       pg_backend_pid() AS backend,
       (SELECT extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS backend_start
