"""Sentences that the text, Markdown and HTML of a report have in common."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from octavo.doctor.engine import SEVERITIES, STATUSES
from octavo.units import format_size, human_count, human_duration, human_size

_MOST = 80
# Settings in bytes.
_SIZES = frozenset({
    "autovacuum_work_mem", "block_size", "effective_cache_size", "huge_page_size", "io_combine_limit",
    "io_max_combine_limit", "maintenance_work_mem", "max_wal_size", "min_wal_size", "shared_buffers",
    "shared_memory_size", "wal_block_size", "wal_segment_size", "work_mem",
})  # fmt: skip


def verdict(server: Mapping[str, Any]) -> str:
    """The first line: which server, and how many findings.

    >>> verdict({"server": "host=/tmp port=5432", "version": "18.1", "results": [
    ...     {"status": "finding", "severity": "warning"}, {"status": "ok", "severity": None}]})
    'PostgreSQL 18.1 at host=/tmp port=5432: 1 warning'
    >>> verdict({"server": "facts.json", "version": None, "results": [
    ...     {"rule": "a", "status": "unknown", "severity": None}, {"rule": "b", "status": "ok", "severity": None}]})
    'facts.json: no findings; 1 of 2 rules unknown'
    """
    name = f"PostgreSQL {server['version']} at {server['server']}" if server["version"] else server["server"]
    numbers = {level: sum(1 for one in server["results"] if one["severity"] == level) for level in SEVERITIES}
    found = ", ".join(human_count(number, level) for level, number in numbers.items() if number)
    return f"{name}: {found or _none_found(server['results'])}"


def _none_found(results: Sequence[Mapping[str, Any]]) -> str:
    """What holds without a finding: rules that could not be examined found nothing wrong either."""
    unknown = {one["rule"] for one in results if one["status"] == "unknown"}
    if not unknown:
        return "nothing to change"
    return f"no findings; {len(unknown)} of {len({one['rule'] for one in results})} rules unknown"


def tally(server: Mapping[str, Any]) -> str:
    """How many rules ended in each way."""
    numbers = {word: sum(1 for one in server["results"] if one["status"] == word) for word in STATUSES}
    findings = human_count(numbers.pop("finding"), "finding")
    return ", ".join([findings, *(f"{number} {word}" for word, number in numbers.items() if number)])


def evidence(result: Mapping[str, Any]) -> list[str]:
    """Each fact that the rule asked for: its value, and where that is from."""
    return [f"{one['fact']} = {shown(one['fact'], one.get('value'))} ({one.get('source')})"
            for one in result["evidence"]]  # fmt: skip


def shown(name: str, value: Any) -> str:
    """A fact's value for people.

    >>> shown("host.memory.page_bytes", 65536), shown("server.connections", 7), shown("x", None), shown("x", [{}, {}])
    ('64kB', '7', 'none', '2 entries')
    >>> shown("setting.work_mem", 4 * 1024**2), shown("setting.shared_memory_size_in_huge_pages", 67503)
    ('4MB', '67503')
    >>> shown("server.wal.seconds", 864000.0)
    '240 h 0 min'
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        plain = not any(isinstance(one, dict) for one in entries)
        return ", ".join(map(str, entries)) or "none" if plain else f"{len(entries)} entries"
    if isinstance(value, int) and ("bytes" in name or name.removeprefix("setting.") in _SIZES):
        return format_size(value) if "memory." not in name or value < 1024**2 else human_size(value)
    if isinstance(value, int | float) and (
        name.endswith(("_seconds", ".seconds")) or name == "setting.checkpoint_timeout"
    ):
        return human_duration(value)
    if isinstance(value, float):
        return human_size(value) + "/s" if "bytes_per_second" in name else f"{value:,.4g}"
    text = str(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
