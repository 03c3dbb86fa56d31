"""Validity: the rules by which a measured trial is not believed. A new one is a file here, a line in the table,
and its name and threshold in `plan.thresholds`.

A rule may not depend on what a factor can cause: fewer checkpoints or more memory pressure may be the outcome.
Where a plan's factor can cause it after all, the plan declares it (`outcomes`), and it is not censored.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from octavo.lab.validity import (
    buffer_misses,
    cache_state,
    client_problems,
    clock,
    consistency,
    device_limit,
    duration,
    foreign_cpu,
    foreign_io,
    knobs,
    memory_limit,
    no_space,
    server_log,
    server_restart,
    steal,
    transactions,
)
from octavo.lab.validity.evidence import Evidence

# In this order: the first rule that says so gives the reason, so causes stand before what follows from them.
RULES: dict[str, Callable[[Evidence], str | None]] = {
    rule.NAME: rule.judge
    for rule in (
        no_space, server_restart, client_problems, server_log, consistency, duration, transactions, clock, steal,
        foreign_cpu, foreign_io, knobs, device_limit, memory_limit, cache_state,
        buffer_misses,
    )
}  # fmt: skip


class Invalidity(NamedTuple):
    """Why a trial is invalid, and by which rule."""

    rule: str
    reason: str


def first_doubt(evidence: Evidence, outcomes: Collection[str] = ()) -> Invalidity | None:
    """Why the trial is invalid, by the first rule that says so, or None when it may be believed.

    Rules named in `outcomes` are not asked: what they find is what the plan wants to know.
    """
    found = (Invalidity(name, judge(evidence) or "") for name, judge in RULES.items() if name not in outcomes)
    return next((doubt for doubt in found if doubt.reason), None)
