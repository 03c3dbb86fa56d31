"""The changes between two reports of `--format json`: findings that were added, resolved, became worse or better, or
have other figures; and the page stack."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from octavo.doctor.engine import SEVERITIES
from octavo.doctor.json_file import read_json
from octavo.doctor.report import SCHEMA_VERSION
from octavo.doctor.sentences import shown
from octavo.doctor.storage_volumes import DATA
from octavo.errors import UsageError

# What a finding becomes when nobody knows whether it is still there: its server or a fact cannot be examined.
_UNSEEN = ("unknown", "absent")
# The key of a result: server, rule, and what is on the volume.
_Key = tuple[str, str, str]


def read_report(path: Path) -> dict[str, Any]:
    """Reads a report from a file. Raises UsageError when it is not one."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise UsageError(f"{path} is not a report of octavo doctor --format json")
    report = cast("dict[str, Any]", found)
    if report.get("schema_version") != SCHEMA_VERSION or not isinstance(report.get("servers"), list):
        raise UsageError(f"{path} is not a report of octavo doctor --format json with schema_version {SCHEMA_VERSION}")
    return report


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The changes by server and rule: `was` and `is` (a severity or a status), and the facts behind it that differ.

    `stay`: the findings of both reports, with the facts that differ. `page_stack`: the layers whose size changed.
    Raises UsageError when a report has another form.
    """
    try:
        then, now = _by_rule(before), _by_rule(after)
        rows = [
            _row(key, then.get(key), now.get(key))
            for key in dict.fromkeys([*then, *now])
            if (was := _word(then.get(key))) != (is_now := _word(now.get(key))) and {was, is_now} & set(SEVERITIES)
        ]
        stay = [
            _row(key, then[key], now[key])
            for key in then
            if key in now and _word(then[key]) == _word(now[key]) and _word(now[key]) in SEVERITIES
        ]
        layers = _layers(before, after)
    except (KeyError, IndexError, TypeError, AttributeError):
        raise UsageError("one of the two is not a report of octavo doctor --format json") from None
    return {
        "schema_version": SCHEMA_VERSION,
        "changes": sorted(rows, key=lambda row: row["better"]),
        "stay": stay,
        "page_stack": layers,
    }


def lines(changed: Mapping[str, Any]) -> list[str]:
    """The changes as text, worse results first, then the findings that stay, with figures that changed."""
    rows = changed_lines(changed) or ["no finding was added, resolved or changed"]
    layers = [f"{row['layer']} at {row['server']}: {row['was']} → {row['is']}" for row in changed["page_stack"]]
    return [*rows, *layers, *(f"stays: {_what(row)} at {row['server']}: {row['is']}{_in_brackets(row['facts'])}"
                              for row in changed["stay"])]  # fmt: skip


def changed_lines(changed: Mapping[str, Any]) -> list[str]:
    """The findings that were added, resolved, became worse or better, or are not known any more; worse results
    first."""
    return [
        f"{_direction(row)}: {_what(row)} at {row['server']}: {row['was']} → {row['is']}{_in_brackets(row['facts'])}"
        for row in changed["changes"]
    ]


def _direction(row: Mapping[str, Any]) -> str:
    return "better" if row["better"] else "not known" if row["is"] in _UNSEEN else "worse"


def _what(row: Mapping[str, Any]) -> str:
    """The rule, with its volume unless that is the data directory's.

    >>> _what({"rule": "readahead", "volume": "pg_wal"}), _what({"rule": "swap", "volume": "data directory"})
    ('readahead (pg_wal)', 'swap')
    """
    return str(row["rule"]) if row["volume"] == DATA else f"{row['rule']} ({row['volume']})"


def _in_brackets(facts: list[str]) -> str:
    return f" ({'; '.join(facts)})" if facts else ""


def _layers(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Layers of both reports whose size differs."""
    then, now = (
        {(server["server"], row["layer"]): row["value"] for server in report["servers"] for row in server["page_stack"]}
        for report in (before, after)
    )
    return [
        {"server": server, "layer": layer, "was": then[server, layer], "is": size}
        for (server, layer), size in now.items()
        if then.get((server, layer), size) != size
    ]


def _by_rule(report: Mapping[str, Any]) -> dict[_Key, Mapping[str, Any]]:
    return {
        (server["server"], one["rule"], what): one
        for server in report["servers"]
        for one in server["results"]
        for what in _first_held(one)
    }


def _first_held(result: Mapping[str, Any]) -> list[str]:
    """The first contents named for each volume of a result. Reports that name none are about the data directory's
    volume."""
    return [str(volume["holds"][0]) for volume in result.get("volumes", ())] or [DATA]


def _word(result: Mapping[str, Any] | None) -> str:
    return "absent" if result is None else str(result["severity"] or result["status"])


def _row(key: _Key, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> dict[str, Any]:
    values = [{one["fact"]: one.get("value") for one in result["evidence"]} if result else {} for result in (then, now)]
    facts = [
        f"{name} {shown(name, values[0].get(name))} → {shown(name, value)}"
        for name, value in values[1].items()
        if name in values[0] and values[0][name] != value
    ]
    was, is_now = _word(then), _word(now)
    server, rule, volume = key
    return {"server": server, "rule": rule, "volume": volume, "was": was, "is": is_now,
            "better": _rank(is_now) > _rank(was) and is_now not in _UNSEEN, "facts": facts}  # fmt: skip


def _rank(word: str) -> int:
    """The rank of a status: the worst is the lowest. All that are not findings rank equally."""
    return SEVERITIES.index(word) if word in SEVERITIES else len(SEVERITIES)
