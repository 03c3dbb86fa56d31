SELECT extract(epoch FROM pg_postmaster_start_time())::float8 AS started
