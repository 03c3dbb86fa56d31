"""Plausible server settings from a trace. A trace may come from anybody, and its values become sizes, counts and
divisors of a simulation. Values that no server can have are removed, as if the trace did not contain them.

Limits of settings are PostgreSQL's own (pg_settings, min_val and max_val) or wider.
"""

import math
from collections.abc import Callable

from octavo.errors import UsageError
from octavo.trace.core_types import Relation, Summary
from octavo.units import parse_duration, parse_size

Check = Callable[[str], bool]

# vacuum_buffer_usage_limit of a server whose VACUUM has no ring: PostgreSQL writes a zero without a unit.
NO_RING = "0"
_KB, _MB, _TB = 1024, 1024**2, 1024**4
_MOST_BLOCKS = 2**32 - 2  # MaxBlockNumber
_FILLFACTORS = range(10, 101)
_LONGEST = 24


def _whole(low: int, high: int) -> Check:
    return lambda text: text.isascii() and text.isdecimal() and len(text) <= _LONGEST and low <= int(text) <= high


def _power_of_two(low: int, high: int) -> Check:
    is_within = _whole(low, high)
    return lambda text: is_within(text) and int(text).bit_count() == 1


def _number(low: float, high: float) -> Check:
    def check(text: str) -> bool:
        return len(text) <= _LONGEST and math.isfinite(number := float(text)) and low <= number <= high

    return check


def _size(low: int, high: int) -> Check:
    return lambda text: low <= parse_size(text) <= high


def _duration(low: float, high: float) -> Check:
    return lambda text: low <= parse_duration(text) <= high


def _either(word: str, check: Check) -> Check:
    return lambda text: text == word or check(text)


_SETTINGS: dict[str, Check] = {
    "shared_buffers": _size(8 * _KB, 16 * _TB),
    "max_connections": _whole(1, 262_143),
    "effective_io_concurrency": _whole(0, 1000),
    "io_combine_limit": _size(_KB, 4 * _MB),
    "io_max_combine_limit": _size(_KB, 4 * _MB),
    "vacuum_buffer_usage_limit": _either(NO_RING, _size(0, 16 * 1024 * _MB)),
    "bgwriter_delay": _duration(0.01, 10),
    "bgwriter_lru_maxpages": _whole(0, 2**30 - 1),
    "bgwriter_lru_multiplier": _number(0, 10),
    "bgwriter_flush_after": _either("0", _size(_KB, 8 * _MB)),
    "checkpoint_flush_after": _either("0", _size(_KB, 8 * _MB)),
    "checkpoint_timeout": _duration(1, 86_400),
    "checkpoint_completion_target": _number(0, 1),
    "max_wal_size": _size(2 * _MB, 2**31 * _MB),
    "min_wal_size": _size(2 * _MB, 2**31 * _MB),
    "wal_segment_size": _size(_MB, 1024 * _MB),
    "wal_block_size": _power_of_two(_KB, 64 * _KB),
}
_PROPERTIES: dict[str, Check] = {
    "server_version_num": _whole(70_000, 999_999),
    "kernel_page_bytes": _power_of_two(4 * _KB, 64 * _KB),
    "readahead_bytes": _whole(0, 256 * _MB),
    "work_clients": _number(0, 100_000),
    "processors": _number(1, 65_536),
    "host_memory_bytes": _number(_MB, 1024 * _TB),
    "checkpoint_seconds": _number(0, 10 * 366 * 86_400),
}


def plausible(summary: Summary) -> Summary:
    """The summary without values that no server can have."""
    return {
        **summary,
        "settings": _kept(summary["settings"], _SETTINGS),
        "properties": _kept(summary["properties"], _PROPERTIES),
        "relations": [_relation(one) for one in summary["relations"]],
    }


def _kept(told: dict[str, str], checks: dict[str, Check]) -> dict[str, str]:
    return {name: text for name, text in told.items() if name not in checks or _holds(checks[name], text)}


def _holds(check: Check, text: str) -> bool:
    try:
        return check(text)
    except (ValueError, UsageError):
        return False


def _relation(one: Relation) -> Relation:
    blocks = one["blocks"] if one["blocks"] <= _MOST_BLOCKS else 0
    fillfactor = one["fillfactor"] if one["fillfactor"] in _FILLFACTORS else 0
    return {**one, "blocks": blocks, "fillfactor": fillfactor}
