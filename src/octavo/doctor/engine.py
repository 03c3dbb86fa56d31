"""Rules over facts: each is ok, a finding, unknown with the reason, or not applicable."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from octavo.doctor.facts import Fact, Facts, NotApplicableError, RuleFacts, UnknownError
from octavo.doctor.lines import Line, written
from octavo.doctor.storage_volumes import Content, ServerVolume, volumes_of

Severity = Literal["error", "warning", "note"]
Status = Literal["finding", "unknown", "ok", "not applicable"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
# The source of a setting, as in "pg_settings: work_mem (command line)".
_SOURCE = re.compile(r"^pg_settings: .* \(([a-z ]+)\)$")
STATUSES: tuple[Status, ...] = ("finding", "unknown", "ok", "not applicable")


@dataclass(frozen=True, slots=True)
class Ok:
    """Nothing to change. `seen` says what was checked."""

    seen: str


@dataclass(frozen=True, slots=True)
class Finding:
    """`error`: the server dies, does not start or may lose data. `warning`: a large cost here. `note`: a smaller one.

    `cost` is computed for this host. `fix` are the lines to use as they are, `takes` says what puts them into effect
    (`reload`, `restart`, `reboot`, `now`), `check` is the command that verifies the change.
    """

    severity: Severity
    seen: str
    cost: str
    fix: tuple[Line, ...]
    takes: str
    check: str


@dataclass(frozen=True, slots=True)
class DoctorRule:
    """`asks` is the question, `finds` the condition for a finding, `source` the reference for the rule.

    A finding marks these `layers` of the page stack. A rule about storage is evaluated for each volume that holds one
    of `volumes`, any other rule once for the server.
    """

    name: str
    asks: str
    finds: str
    source: str
    judge: Callable[[RuleFacts], Ok | Finding]
    layers: tuple[str, ...] = ()
    volumes: tuple[Content, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a rule for these facts. `text`: what was checked, or why there is no result.

    `volumes`: those that the result is for, if the server's files are on several and the rule is about storage.
    """

    rule: str
    status: Status
    text: str
    evidence: tuple[Fact, ...] = ()
    finding: Finding | None = None
    source: str = ""
    volumes: tuple[ServerVolume, ...] = ()

    @property
    def severity(self) -> Severity | None:
        """The severity of a finding, otherwise None."""
        return self.finding and self.finding.severity

    def as_dict(self, *, running: bool = True, in_file: bool = False, managed: str | None = None) -> dict[str, Any]:
        """The result for JSON, with its lines in the form of `lines.written`."""
        found: dict[str, Any] = {
            "rule": self.rule,
            "status": self.status,
            "severity": self.severity,
            "text": self.text,
            "evidence": [{"fact": fact.name, **fact.as_dict()} for fact in self.evidence],
            "source": self.source,
            "volumes": [volume.as_dict() for volume in self.volumes],
        }
        if self.finding is not None:
            found |= {
                "cost": self.finding.cost,
                "fix": written(
                    self.finding.fix, running=running, in_file=in_file, sources=self._sources(), managed=managed
                ),
                "takes": self.finding.takes,
                "check": self.finding.check,
            }
        return found

    def _sources(self) -> dict[str, str]:
        """The sources of the settings that the rule used, by name, as in pg_settings."""
        return {
            fact.name.removeprefix("setting."): match[1]
            for fact in self.evidence
            if (match := _SOURCE.search(fact.source)) is not None
        }


def examine(facts: Facts, rules: Iterable[DoctorRule]) -> list[Result]:
    """The results of all rules, several for a rule whose volumes differ: findings first, the worst before the
    others."""
    volumes = volumes_of(facts["host.volumes"].value)
    results = [result for rule in rules for result in _of_volumes(rule, facts, volumes)]
    return sorted(results, key=_order)


def _order(result: Result) -> tuple[int, int]:
    return STATUSES.index(result.status), SEVERITIES.index(result.severity) if result.severity else 0


def _of_volumes(rule: DoctorRule, facts: Facts, volumes: list[ServerVolume]) -> list[Result]:
    """A rule's results, with one for all volumes that have the same result."""
    concerned = [volume for volume in volumes if volume.contents.intersection(rule.volumes)]
    if len(volumes) < 2 or not concerned:
        return [_apply(rule, RuleFacts(facts, *concerned))]
    is_spread = len({volume.mount for volume in volumes if "tables" in volume.contents}) > 1
    found: dict[tuple[str, str, Finding | None], Result] = {}
    for volume in concerned:
        result = _apply(rule, RuleFacts(facts, volume, is_spread=is_spread))
        same = found.get(key := (result.status, result.text, result.finding), result)
        evidence = {fact.name: fact for fact in (*same.evidence, *result.evidence)}
        found[key] = replace(same, evidence=tuple(evidence.values()), volumes=(*same.volumes, volume))
    return [
        result if len(result.volumes) == len(concerned) > 1 else replace(result, text=_of(result.volumes, result.text))
        for result in found.values()
    ]


def _of(volumes: tuple[ServerVolume, ...], text: str) -> str:
    return f"{', '.join(map(str, volumes))}: {text}"


def _apply(rule: DoctorRule, asked: RuleFacts) -> Result:
    try:
        judged = rule.judge(asked)
    except UnknownError as reason:
        return Result(rule.name, "unknown", str(reason), source=rule.source)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # The facts may be from a file or an unusual kernel: if a rule fails on them, the other results must still be
        # shown.
        return Result(rule.name, "unknown", f"the facts are inconsistent ({error!r})", source=rule.source)
    except NotApplicableError as reason:
        return Result(rule.name, "not applicable", str(reason), tuple(asked.evidence.values()), source=rule.source)
    evidence = tuple(asked.evidence.values())
    if isinstance(judged, Ok):
        return Result(rule.name, "ok", judged.seen, evidence, source=rule.source)
    return Result(rule.name, "finding", judged.seen, evidence, judged, rule.source)
