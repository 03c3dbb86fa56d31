"""Settings that came with a major version, which an older server refuses: a cell with both cannot exist.

Source: PostgreSQL's release notes of 17 and 18, and guc_tables.c of each.
"""

from collections.abc import Mapping

from octavo.postgres.versions import major_of

_SINCE = {
    "io_combine_limit": 17,
    "io_max_combine_limit": 18,
    "io_max_concurrency": 18,
    "io_method": 18,
    "io_workers": 18,
}


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
