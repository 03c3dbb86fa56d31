SELECT current_setting('shared_preload_libraries') ~ '\mpg_stat_statements\M' AS preloaded
