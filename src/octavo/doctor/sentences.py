"""Sentences that the text, Markdown and HTML of a report share."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from octavo.doctor.engine import SEVERITIES, STATUSES
from octavo.units import format_size, human_count, human_duration, human_size

_MOST = 80
_SEVERAL = 3
# The fact that a rule lacks, which precedes the reason.
_FACT = re.compile(r"^(volume\.[0-9]+\.)?(host|live|server|setting)\.[a-z0-9_.]+: ")
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
    """The text without findings. Rules that could not be evaluated have not found the server to be good, either."""
    unknown = {one["rule"] for one in results if one["status"] == "unknown"}
    if not unknown:
        return "nothing to change"
    return f"no findings; {len(unknown)} of {len({one['rule'] for one in results})} rules unknown"


def tally(server: Mapping[str, Any]) -> str:
    """The number of rules by status."""
    numbers = {word: sum(1 for one in server["results"] if one["status"] == word) for word in STATUSES}
    findings = human_count(numbers.pop("finding"), "finding")
    return ", ".join([findings, *(f"{number} {word}" for word, number in numbers.items() if number)])


def groups(server: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Reasons for which several rules are unknown, with these rules."""
    found: dict[str, list[str]] = {}
    for one in server["results"]:
        if one["status"] == "unknown":
            found.setdefault(_FACT.sub("", one["text"]), []).append(one["rule"])
    return [(reason, rules) for reason, rules in found.items() if len(rules) >= _SEVERAL]


def unknowns(server: Mapping[str, Any]) -> list[str]:
    """One sentence per such reason.

    >>> unknowns({"facts": {"host.": {"unknown": "the server runs on another host"}}, "results": [
    ...     {"rule": name, "status": "unknown", "text": "host.fs.type: the server runs on another host"}
    ...     for name in ("a", "b", "c")]})
    ['3 rules need its host and are unknown (the server runs on another host): a, b, c']
    """
    of_host = _of_host(server)
    return [
        f"{len(rules)} rules {'need its host and ' if reason == of_host else ''}are unknown ({reason}): "
        f"{', '.join(rules)}"
        for reason, rules in groups(server)
    ]


def others(server: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Results that are not findings: rule, status and text. Those unknown for the same reason share a row."""
    shared = groups(server)
    reasons = {reason for reason, _ in shared}
    return [
        *((f"{len(rules)} rules", "unknown", f"{reason}: {', '.join(rules)}") for reason, rules in shared),
        *(
            (one["rule"], one["status"], one["text"])
            for one in server["results"]
            if one["status"] != "finding" and not (one["status"] == "unknown" and _FACT.sub("", one["text"]) in reasons)
        ),
    ]


def layers(server: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The page stack; without the host's layers if nothing is known about the host, for which `unknowns` has the
    reason."""
    of_host = _of_host(server)
    if of_host is None:
        return list(server["page_stack"])
    rows = [{**row, "detail": row["detail"].removesuffix(of_host).removesuffix(", ")} for row in server["page_stack"]]
    return [row for row in rows if row["size_bytes"] is not None or row["findings"] or row["detail"]]


def _of_host(server: Mapping[str, Any]) -> str | None:
    """Why nothing is known about the host, or None if something is."""
    reason = server["facts"].get("host.", {}).get("unknown")
    return reason if isinstance(reason, str) else None


def evidence(result: Mapping[str, Any]) -> list[str]:
    """Each fact that the rule requested, with its value and source."""
    return [f"{one['fact']} = {shown(one['fact'], one.get('value'))} ({one.get('source')})"
            for one in result["evidence"]]  # fmt: skip


def shown(name: str, value: Any) -> str:
    """A fact's value as text.

    >>> shown("host.memory.page_bytes", 65536), shown("server.connections", 7), shown("x", None), shown("x", [{}, {}])
    ('64kB', '7', 'none', '2 entries')
    >>> shown("setting.work_mem", 4 * 1024**2), shown("setting.shared_memory_size_in_huge_pages", 67503)
    ('4MB', '67503')
    >>> shown("setting.autovacuum_work_mem", -1)
    '-1'
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
    if isinstance(value, int) and value >= 0 and ("bytes" in name or name.removeprefix("setting.") in _SIZES):
        return format_size(value) if "memory." not in name or value < 1024**2 else human_size(value)
    if isinstance(value, int | float) and (
        name.endswith(("_seconds", ".seconds")) or name == "setting.checkpoint_timeout"
    ):
        return human_duration(value)
    if isinstance(value, float):
        return human_size(value) + "/s" if "bytes_per_second" in name else f"{value:,.4g}"
    text = str(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
