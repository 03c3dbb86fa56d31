-- num_timed and num_requested also count checkpoints that were skipped because nothing had been written since the last.
SELECT num_done::float8 AS checkpoints, write_time AS write_milliseconds,
       sync_time AS sync_milliseconds, buffers_written::float8 AS buffers_checkpoint,
       buffers_clean::float8 AS buffers_clean, maxwritten_clean::float8 AS maxwritten_clean
FROM pg_stat_checkpointer, pg_stat_bgwriter
