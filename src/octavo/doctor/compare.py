"""The changes between two reports of `--format json`: findings added, resolved, worse or better, or with other figures;
and the page stack."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from octavo.doctor.engine import SEVERITIES
from octavo.doctor.json_file import read_json
from octavo.doctor.report import SCHEMA_VERSION
from octavo.doctor.sentences import shown
from octavo.errors import UsageError


def read_report(path: Path) -> dict[str, Any]:
    """A report from a file. Raises UsageError when it is none."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise UsageError(f"{path} is not a report of octavo doctor --format json")
    report = cast("dict[str, Any]", found)
    if report.get("schema_version") != SCHEMA_VERSION or not isinstance(report.get("servers"), list):
        raise UsageError(f"{path} is not a report of octavo doctor --format json with schema_version {SCHEMA_VERSION}")
    return report


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """By server and rule: `was` and `is` (a severity or a status), and the facts behind it that differ.

    `stay` are the findings that both have, with the facts that differ; `page_stack` the layers of another size.
    Raises UsageError when a report has another form.
    """
    try:
        then, now = _by_rule(before), _by_rule(after)
        rows = [
            _row(server, rule, then.get((server, rule)), now.get((server, rule)))
            for server, rule in dict.fromkeys([*then, *now])
            if (was := _word(then.get((server, rule)))) != (is_now := _word(now.get((server, rule))))
            and {was, is_now} & set(SEVERITIES)
        ]
        stay = [
            _row(server, rule, then[server, rule], now[server, rule])
            for server, rule in then
            if (server, rule) in now
            and _word(then[server, rule]) == _word(now[server, rule])
            and _word(now[server, rule]) in SEVERITIES
        ]
        layers = _layers(before, after)
    except (KeyError, TypeError, AttributeError):
        raise UsageError("one of the two is not a report of octavo doctor --format json") from None
    return {
        "schema_version": SCHEMA_VERSION,
        "changes": sorted(rows, key=lambda row: row["better"]),
        "stay": stay,
        "page_stack": layers,
    }


def lines(changed: Mapping[str, Any]) -> list[str]:
    """For people, what became worse first; then what stays, with its figures where they are others."""
    rows = changed_lines(changed) or ["no finding was added, resolved or changed"]
    layers = [f"{row['layer']} at {row['server']}: {row['was']} → {row['is']}" for row in changed["page_stack"]]
    return [*rows, *layers, *(f"stays: {row['rule']} at {row['server']}: {row['is']}{_in_brackets(row['facts'])}"
                              for row in changed["stay"])]  # fmt: skip


def changed_lines(changed: Mapping[str, Any]) -> list[str]:
    """Findings that came, went, became worse or better, what became worse first."""
    return [
        f"{'better' if row['better'] else 'worse'}: {row['rule']} at {row['server']}: {row['was']} → {row['is']}"
        + _in_brackets(row["facts"])
        for row in changed["changes"]
    ]


def _in_brackets(facts: list[str]) -> str:
    return f" ({'; '.join(facts)})" if facts else ""


def _layers(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Layers that both have and whose size is another."""
    then, now = (
        {(server["server"], row["layer"]): row["value"] for server in report["servers"] for row in server["page_stack"]}
        for report in (before, after)
    )
    return [
        {"server": server, "layer": layer, "was": then[server, layer], "is": size}
        for (server, layer), size in now.items()
        if then.get((server, layer), size) != size
    ]


def _by_rule(report: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(server["server"], one["rule"]): one for server in report["servers"] for one in server["results"]}


def _word(result: Mapping[str, Any] | None) -> str:
    return "absent" if result is None else str(result["severity"] or result["status"])


def _row(server: str, rule: str, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> dict[str, Any]:
    values = [{one["fact"]: one.get("value") for one in result["evidence"]} if result else {} for result in (then, now)]
    facts = [
        f"{name} {shown(name, values[0].get(name))} → {shown(name, value)}"
        for name, value in values[1].items()
        if name in values[0] and values[0][name] != value
    ]
    was, is_now = _word(then), _word(now)
    return {"server": server, "rule": rule, "was": was, "is": is_now, "better": _rank(is_now) > _rank(was),
            "facts": facts}  # fmt: skip


def _rank(word: str) -> int:
    """The worst is the lowest; everything that is no finding is alike."""
    return SEVERITIES.index(word) if word in SEVERITIES else len(SEVERITIES)
