"""Many hosts in one table, the worst first: runs `octavo doctor --format json` on each, over SSH."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from octavo.doctor.engine import SEVERITIES
from octavo.doctor.json_file import parse_json
from octavo.doctor.report import SCHEMA_VERSION
from octavo.errors import UsageError
from octavo.remote.hosts_file import RemoteHost
from octavo.remote.ssh import HostAnswer
from octavo.text import one_line
from octavo.units import human_count

# Limits: a host answers in a few seconds and its servers' intervals, one after another; the report of a server has some
# hundred kB.
_SECONDS, _INTERVALS = 60, 10
MOST_BYTES = 16 * 1024**2
_MOST_SERVERS = 50
_MOST_RESULTS = 500  # rules of a server
_LONGEST = 300


def words_for(host: RemoteHost, interval: str) -> list[str]:
    """The command for a host. Its exit code does not depend on findings, which the rows count."""
    return [*host.octavo, "doctor", "--format", "json", "--fail-on", "never", "--interval", interval]


def seconds_for(interval: float) -> int:
    """The time in which a host has to answer.

    >>> seconds_for(2.0), seconds_for(120.0)
    (80, 1260)
    """
    return _SECONDS + math.ceil(_INTERVALS * interval)


def rows_of(answer: HostAnswer) -> list[dict[str, Any]]:
    """One row per server of the host, or one row with the problem. All text is on one line, without control
    characters."""
    host = {"host": answer.host.name, "class": answer.host.host_class}
    if answer.problem is not None:
        return [{**host, **_without(answer.problem)}]
    try:
        report = parse_json(answer.output)
        servers = cast("list[dict[str, Any]]", report["servers"])
        if report["schema_version"] != SCHEMA_VERSION:
            raise UsageError(f"its report has schema_version {report['schema_version']!r}, not {SCHEMA_VERSION}")
        rows = [{**host, **_row(server)} for server in servers[:_MOST_SERVERS]]
        if (more := len(servers) - _MOST_SERVERS) > 0:
            rows.append({**host, **_without(f"{human_count(more, 'server')} more than {_MOST_SERVERS}, left out here")})
    except UsageError as error:
        return [{**host, **_without(str(error))}]
    except (KeyError, TypeError, ValueError, AttributeError):
        return [{**host, **_without("its output is not a report of octavo doctor --format json")}]
    return rows or [{**host, **_without("no server of this host could be examined")}]


def document(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """All rows, the worst first: by errors, then hosts that could not be examined, then by warnings and notes."""
    ordered = sorted((dict(row) for row in rows), key=_badness)
    return {
        "schema_version": SCHEMA_VERSION,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "findings": {level: sum(row["findings"][level] for row in ordered) for level in SEVERITIES},
        "unanswered": sum(row["problem"] is not None for row in ordered),
        "rows": ordered,
    }


def headline(found: Mapping[str, Any]) -> str:
    """The first line of the output.

    >>> headline({"rows": [{"host": "a", "problem": None}], "findings": {"error": 1, "warning": 0, "note": 2}})
    '1 server on 1 host: 1 error, 2 notes'
    >>> headline({"rows": [{"host": "a", "problem": "no route to host"}], "findings": {"error": 0}})
    'no server examined; 1 host could not be examined'
    """
    rows: Sequence[Mapping[str, Any]] = found["rows"]
    asked = [row for row in rows if row["problem"] is None]
    silent = len({row["host"] for row in rows if row["problem"] is not None})
    counts = [human_count(number, level) for level, number in found["findings"].items() if number]
    if not asked:
        return f"no server examined; {human_count(silent, 'host')} could not be examined"
    where = human_count(len({row["host"] for row in asked}), "host")
    missing = f"; {human_count(silent, 'host')} could not be examined" if silent else ""
    return f"{human_count(len(asked), 'server')} on {where}: {', '.join(counts) or _none_found(asked)}{missing}"


def _none_found(asked: Sequence[Mapping[str, Any]]) -> str:
    """The text when there are no findings."""
    unknown = sum(row["unknown"] or 0 for row in asked)
    return f"no findings; {human_count(unknown, 'result')} unknown" if unknown else "nothing to change"


def _row(server: dict[str, Any]) -> dict[str, Any]:
    if server["problem"]:
        return {**_without(str(server["problem"])), "server": _clean(server["server"])}
    results = cast("list[dict[str, Any]]", server["results"])[:_MOST_RESULTS]
    found = [one for one in results if one["status"] == "finding" and one["severity"] in SEVERITIES]
    found.sort(key=lambda one: SEVERITIES.index(one["severity"]))
    stack = {str(layer["layer"]): layer["value"] for layer in server["page_stack"]}
    return {
        "server": _clean(server["server"]),
        "version": _clean(server["version"] or ""),
        "kernel_page": _clean(stack.get("CPU memory page", "")),
        "data_block": _clean(stack.get("data block", "")),
        "findings": {level: sum(one["severity"] == level for one in found) for level in SEVERITIES},
        "unknown": sum(one["status"] == "unknown" for one in results),
        "rules": [f"{one['severity']}: {_clean(one['rule'])}" for one in found],
        "worst": _clean(found[0]["text"]) if found else "",
        "problem": None,
    }


def _without(problem: str) -> dict[str, Any]:
    nothing = dict.fromkeys(SEVERITIES, 0)
    return {
        "server": "", "version": "", "kernel_page": "", "data_block": "", "findings": nothing, "unknown": 0,
        "rules": [], "worst": "", "problem": _clean(problem),
    }  # fmt: skip


def _clean(text: object) -> str:
    said = one_line(text)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


def _badness(row: Mapping[str, Any]) -> tuple[Any, ...]:
    found = row["findings"]
    return -found["error"], row["problem"] is None, -found["warning"], -found["note"], row["host"], row["server"]
