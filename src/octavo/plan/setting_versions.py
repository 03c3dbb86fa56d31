"""Settings that came with a major version, which an older server refuses: a cell with both cannot exist.

Source: PostgreSQL's release notes of 16 to 18, and guc_tables.c of each. Only settings that affect a measurement; what
is not listed the server refuses when it starts.
"""

from collections.abc import Mapping

from octavo.postgres.versions import major_of

_NEW = {
    16: ("debug_io_direct", "debug_parallel_query", "enable_presorted_aggregate", "vacuum_buffer_usage_limit"),
    17: (
        "commit_timestamp_buffers", "enable_group_by_reordering", "io_combine_limit", "multixact_member_buffers",
        "multixact_offset_buffers", "notify_buffers", "serializable_buffers", "subtransaction_buffers",
        "summarize_wal", "transaction_buffers", "transaction_timeout", "wal_summary_keep_time",
    ),
    18: (
        "autovacuum_vacuum_max_threshold", "autovacuum_worker_slots", "enable_distinct_reordering",
        "enable_self_join_elimination", "file_copy_method", "io_max_combine_limit", "io_max_concurrency", "io_method",
        "io_workers", "track_cost_delay_timing", "vacuum_max_eager_freeze_failure_rate", "vacuum_truncate",
    ),
}  # fmt: skip
_SINCE = {name: major for major, names in _NEW.items() for name in names}


def judge(levels: Mapping[str, str], settings: Mapping[str, str]) -> str | None:
    """Why the cell's server refuses one of the settings, or None.

    >>> judge({"version": "17"}, {"io_method": "worker"})
    'io_method came with PostgreSQL 18, and the version is 17; the level as-found leaves it unset'
    """
    major = major_of(levels["version"])
    found = next((name for name in settings if major < _SINCE.get(name, 0)), None)
    if found is None:
        return None
    return (
        f"{found} came with PostgreSQL {_SINCE[found]}, and the version is {levels['version']}; "
        "the level as-found leaves it unset"
    )
