SELECT checkpoints_timed + checkpoints_req AS checkpoints FROM pg_stat_bgwriter
