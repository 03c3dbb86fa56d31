SELECT (checkpoints_timed + checkpoints_req)::float8 AS checkpoints, checkpoint_write_time AS write_milliseconds,
       checkpoint_sync_time AS sync_milliseconds, buffers_checkpoint::float8 AS buffers_checkpoint,
       buffers_clean::float8 AS buffers_clean, maxwritten_clean::float8 AS maxwritten_clean
FROM pg_stat_bgwriter
