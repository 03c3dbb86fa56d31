-- The settings that the doctor's rules ask for, and no others: some hold passwords (primary_conninfo). Names that this
-- version does not have are absent.
SELECT name, setting, unit, vartype, source
FROM pg_settings
WHERE name IN (
    'allow_alter_system', 'autovacuum_max_workers', 'autovacuum_work_mem', 'autovacuum_worker_slots', 'block_size',
    'checkpoint_completion_target', 'checkpoint_timeout', 'data_checksums', 'debug_io_direct', 'effective_cache_size',
    'effective_io_concurrency', 'full_page_writes', 'hash_mem_multiplier', 'huge_page_size', 'huge_pages',
    'huge_pages_status', 'io_combine_limit', 'io_max_combine_limit', 'io_method', 'io_workers',
    'maintenance_work_mem', 'max_connections', 'max_wal_senders', 'max_wal_size',
    'max_worker_processes', 'min_wal_size', 'random_page_cost', 'seq_page_cost', 'shared_buffers', 'shared_memory_size',
    'shared_memory_size_in_huge_pages', 'shared_memory_type', 'wal_block_size', 'wal_compression', 'wal_recycle',
    'wal_segment_size', 'work_mem')
ORDER BY name
