"""Settings of PostgreSQL as factors: `settings.NAME` is a factor of a run, its levels are values that the server
accepts. And the meaning of some of them for the host: the time between checkpoints, the memory of a query and of a
load."""

import re
from collections.abc import Iterable, Mapping

from octavo.errors import UsageError
from octavo.factor import Factor
from octavo.units import format_size, parse_duration, parse_size

PREFIX = "settings."
# The level that leaves a setting alone: what a version has of itself, or what it does not have.
AS_FOUND = "as-found"
_CHECKPOINT_SECONDS = 300.0  # PostgreSQL's own checkpoint_timeout
# What limits the workers of a query, with PostgreSQL's own values: of one Gather, of all queries, of the server.
_WORKERS = {"max_parallel_workers_per_gather": 2, "max_parallel_workers": 8, "max_worker_processes": 8}
_MOST_WORKERS = 262_143  # MAX_BACKENDS

# A name as postgresql.conf has it, with the dots of an extension's settings (PostgreSQL's manual, 19.1).
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")

# Settings that follow from a factor, or are fixed with what a factor chooses.
_FACTORS = {
    "shared_buffers": "shared_buffers",
    "min_wal_size": "recycled_wal",
    "data_checksums": "checksums",
    "wal_segment_size": "wal_segment",
    "block_size": "data_block",
    "wal_block_size": "wal_block",
    "segment_size": "data_segment",
    "server_version": "version",
    "server_version_num": "version",
    "huge_pages": "huge_pages",
    "huge_page_size": "huge_pages",
}

# Settings by which the lab finds the server, its files and its log.
_LABORATORY = frozenset(
    {
        "config_file", "data_directory", "external_pid_file", "hba_file", "ident_file", "listen_addresses",
        "log_destination", "log_line_prefix", "log_timezone", "logging_collector", "port",
        "unix_socket_directories", "unix_socket_group", "unix_socket_permissions",
    }
)  # fmt: skip


def check_setting(name: str) -> None:
    """Raises UsageError when a plan may not set this setting: no name of one, or somebody else's to choose."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is not a valid setting name")
    if owner := _FACTORS.get(name.lower()):
        raise UsageError(f"the setting {name} is set by the factor {owner}; use that instead")
    if name.lower() in _LABORATORY:
        raise UsageError(f"the setting {name} is reserved for Octavo; remove it")


def setting_factor(name: str) -> Factor:
    """The factor `settings.NAME`. It has no default: a plan lists its levels. Raises UsageError for a bad NAME."""
    setting = name.removeprefix(PREFIX)
    check_setting(setting)
    return Factor(name, "run", f"the server's setting {setting}", "", _level)


def setting_factors(names: Iterable[str]) -> dict[str, Factor]:
    """The factors among these names that are settings."""
    return {name: setting_factor(name) for name in dict.fromkeys(names) if name.startswith(PREFIX)}


def settings_of(levels: Mapping[str, str]) -> dict[str, str]:
    """The settings that a cell's levels choose, by name in lower case: the server ignores case (guc_name_compare).

    >>> settings_of({"data_block": "8kB", "settings.Work_Mem": "64MB", "settings.io_method": "as-found"})
    {'work_mem': '64MB'}
    """
    return {
        name.removeprefix(PREFIX).lower(): level
        for name, level in levels.items()
        if name.startswith(PREFIX) and level != AS_FOUND
    }


def checkpoint_seconds(settings: Mapping[str, str]) -> float:
    """Between two checkpoints by the clock; PostgreSQL's default where it is not set, or cannot be read.

    >>> checkpoint_seconds({"checkpoint_timeout": "1min"}), checkpoint_seconds({"checkpoint_timeout": "90"})
    (60.0, 90.0)
    """
    text = settings.get("checkpoint_timeout", "")
    try:
        # A number without a unit is seconds (PostgreSQL's manual, checkpoint_timeout).
        return float(text) if text.isdecimal() else parse_duration(text)
    except UsageError:
        return _CHECKPOINT_SECONDS


def query_memory(settings: Mapping[str, str], data: int) -> int:
    """Bytes that the processes of a query may have together for sorting and hashing `data` bytes: one hash table each.

    PostgreSQL's manual, Resource Consumption: a hash table may take work_mem times hash_mem_multiplier, a sort
    work_mem, and each worker has these limits for itself. A query with several such operations at once may take more;
    one full hash table in each process is assumed, which is never larger than the data.

    >>> query_memory({"work_mem": "64MB", "max_parallel_workers_per_gather": "1"}, 1024**3) // 1024**2
    256
    """
    each = _memory(settings, "work_mem", "4MB") * _number(settings, "hash_mem_multiplier", 2.0, 1, 1000)
    workers = min(_number(settings, name, own, 0, _MOST_WORKERS) for name, own in _WORKERS.items())
    return round(min(each, data) * (1 + workers))


def maintenance_memory(settings: Mapping[str, str], data: int) -> int:
    """Bytes that a command of a load may take, such as CREATE INDEX or the check of a foreign key, on `data` bytes.

    PostgreSQL's manual, Resource Consumption (max_parallel_maintenance_workers): maintenance_work_mem is the limit of
    the whole command, however many workers it has (nbtsort.c divides it), and that of the check (ri_triggers.c).

    >>> maintenance_memory({"maintenance_work_mem": "262144"}, 1024**3) // 1024**2
    256
    """
    return min(_memory(settings, "maintenance_work_mem", "64MB"), data)


def _memory(settings: Mapping[str, str], name: str, own: str) -> int:
    """Bytes; PostgreSQL's own where it is not set, or cannot be read. A number without a unit is kB."""
    text = settings.get(name, own).strip()
    try:
        return parse_size(f"{text}kB" if text.isdecimal() else text)
    except UsageError:
        return parse_size(own)


def _number(settings: Mapping[str, str], name: str, own: float, least: float, most: float) -> float:
    """The same of a number: what is not in its range the server refuses."""
    try:
        found = float(settings.get(name, own))
    except ValueError:
        return own
    return found if least <= found <= most else own


def _level(text: str) -> str:
    """Any text of one line, since the server's own parser judges it; a size in its one spelling."""
    if not text.isprintable() or len(text) > 200:
        raise UsageError("allowed: text of one line, up to 200 characters")
    try:
        return format_size(parse_size(text)) if parse_size(text) else text
    except UsageError:
        return text.strip()
