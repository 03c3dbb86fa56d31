"""Rules over facts: each is ok, a finding, unknown with the reason, or not applicable."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from octavo.doctor.facts import Fact, Facts, NotApplicableError, RuleFacts, UnknownError
from octavo.doctor.lines import Line, written

Severity = Literal["error", "warning", "note"]
Status = Literal["finding", "unknown", "ok", "not applicable"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
# "pg_settings: work_mem (command line)"
_SOURCE = re.compile(r"^pg_settings: .* \(([a-z ]+)\)$")
STATUSES: tuple[Status, ...] = ("finding", "unknown", "ok", "not applicable")


@dataclass(frozen=True, slots=True)
class Ok:
    """Nothing to change; `seen` says what was looked at and found good."""

    seen: str


@dataclass(frozen=True, slots=True)
class Finding:
    """`error`: the server dies, does not start or may lose data; `warning`: it costs much here; `note`: less.

    `cost` is computed for this host. `fix` are lines to be used as they are, `takes` what makes them hold (`reload`,
    `restart`, `reboot`, `now`), `check` the command that shows that it is done.
    """

    severity: Severity
    seen: str
    cost: str
    fix: tuple[Line, ...]
    takes: str
    check: str


@dataclass(frozen=True, slots=True)
class DoctorRule:
    """`asks` is the question, `finds` when the answer is a finding, `source` what the rule rests on.

    `layers` of the page stack are marked by a finding.
    """

    name: str
    asks: str
    finds: str
    source: str
    judge: Callable[[RuleFacts], Ok | Finding]
    layers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What a rule said of these facts; `text` is what was seen, or why nothing can be said."""

    rule: str
    status: Status
    text: str
    evidence: tuple[Fact, ...] = ()
    finding: Finding | None = None
    source: str = ""

    @property
    def severity(self) -> Severity | None:
        """Of a finding."""
        return self.finding and self.finding.severity

    def as_dict(self, *, running: bool = True, in_file: bool = False) -> dict[str, Any]:
        """For JSON; the lines to use as `lines.written` writes them."""
        found: dict[str, Any] = {
            "rule": self.rule,
            "status": self.status,
            "severity": self.severity,
            "text": self.text,
            "evidence": [{"fact": fact.name, **fact.as_dict()} for fact in self.evidence],
            "source": self.source,
        }
        if self.finding is not None:
            found |= {
                "cost": self.finding.cost,
                "fix": written(self.finding.fix, running=running, in_file=in_file, sources=self._sources()),
                "takes": self.finding.takes,
                "check": self.finding.check,
            }
        return found

    def _sources(self) -> dict[str, str]:
        """Where the settings that were asked for are from, by name, as pg_settings says it."""
        return {
            fact.name.removeprefix("setting."): match[1]
            for fact in self.evidence
            if (match := _SOURCE.search(fact.source)) is not None
        }


def examine(facts: Facts, rules: Iterable[DoctorRule]) -> list[Result]:
    """Every rule's result: findings first, the worst of them before the others."""
    results = [_apply(rule, facts) for rule in rules]
    return sorted(results, key=_order)


def _order(result: Result) -> tuple[int, int]:
    return STATUSES.index(result.status), SEVERITIES.index(result.severity) if result.severity else 0


def _apply(rule: DoctorRule, facts: Facts) -> Result:
    asked = RuleFacts(facts)
    try:
        judged = rule.judge(asked)
    except UnknownError as reason:
        return Result(rule.name, "unknown", str(reason), source=rule.source)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Facts of a file, or of a kernel that says odd things: one rule that they break does not hide the others.
        return Result(rule.name, "unknown", f"the facts are inconsistent ({error!r})", source=rule.source)
    except NotApplicableError as reason:
        return Result(rule.name, "not applicable", str(reason), tuple(asked.evidence.values()), source=rule.source)
    evidence = tuple(asked.evidence.values())
    if isinstance(judged, Ok):
        return Result(rule.name, "ok", judged.seen, evidence, source=rule.source)
    return Result(rule.name, "finding", judged.seen, evidence, judged, rule.source)
