"""The doctor's report as one document (schema_version 1), which every format shows."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from octavo.doctor.engine import SEVERITIES, examine
from octavo.doctor.facts import Facts, RuleFacts
from octavo.doctor.lines import refuses_alter_system, service_of
from octavo.doctor.rules import RULES
from octavo.doctor.stack import page_stack

SCHEMA_VERSION = 1


def part(name: str, facts: Facts, problem: str | None = None) -> dict[str, Any]:
    """The report on one server. `problem`: why it could not be examined."""
    results = examine(facts, RULES.values())
    running = not facts["server.connections"].absent  # a stopped server has no counters
    managed = service_of(RuleFacts(facts))
    in_file = refuses_alter_system(facts)
    return {
        "server": name,
        "version": facts["server.version"].value,
        "problem": problem,
        "page_stack": page_stack(facts, results, RULES.values()),
        "results": [one.as_dict(running=running, in_file=in_file, managed=managed) for one in results],
        "facts": facts.as_dict(),
    }


def document(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The report on all servers. `findings` counts them by severity."""
    servers = [dict(one) for one in parts]
    return {
        "schema_version": SCHEMA_VERSION,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "findings": {name: sum(counts(one)[name] for one in servers) for name in SEVERITIES},
        "servers": servers,
    }


def counts(server: Mapping[str, Any]) -> dict[str, int]:
    """The number of findings of a server, by severity."""
    return {name: sum(1 for one in server["results"] if one["severity"] == name) for name in SEVERITIES}


def is_as_bad(report: Mapping[str, Any], severity: str) -> bool:
    """Whether there is a finding of this severity or worse."""
    bad = SEVERITIES[: next(at for at, name in enumerate(SEVERITIES) if name == severity) + 1]
    return any(report["findings"][name] for name in bad)
