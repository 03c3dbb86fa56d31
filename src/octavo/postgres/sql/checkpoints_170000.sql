SELECT num_timed + num_requested AS checkpoints FROM pg_stat_checkpointer
