"""Validity: the rules by which a measured trial is declared invalid. To add one, write a file here with `judge`, and
add its name and threshold to `plan.thresholds`.

A rule must not depend on what a factor can cause: fewer checkpoints or more memory pressure may be the outcome. If a
plan's factor can cause it nevertheless, the plan declares it (`outcomes`), and the trial stays valid.
"""

from collections.abc import Callable, Collection
from importlib import import_module
from typing import NamedTuple

from octavo.lab.validity.evidence import Evidence
from octavo.plan.thresholds import RULE_NAMES

# The first rule that rejects a trial gives the reason, so causes come before their consequences.
RULES: dict[str, Callable[[Evidence], str | None]] = {
    name: import_module(f"octavo.lab.validity.{name}").judge for name in RULE_NAMES
}


class Invalidity(NamedTuple):
    """Why a trial is invalid, and the rule that says so."""

    rule: str
    reason: str


def first_doubt(evidence: Evidence, outcomes: Collection[str] = ()) -> Invalidity | None:
    """Why the trial is invalid, by the first rule that rejects it, or None if it is valid.

    Rules named in `outcomes` are not applied: the plan measures what they would reject.
    """
    found = (Invalidity(name, judge(evidence) or "") for name, judge in RULES.items() if name not in outcomes)
    return next((doubt for doubt in found if doubt.reason), None)
