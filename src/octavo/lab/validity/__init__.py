"""Validity: the rules by which a measured trial is not believed. A new one is a file here, a line in the table,
and its name and threshold in `plan.thresholds`.

A rule may not depend on what a factor can cause: fewer checkpoints or more memory pressure may be the outcome.
Where a plan's factor can cause it after all, the plan declares it (`outcomes`), and it is not censored.
"""

from collections.abc import Callable, Collection

from octavo.lab.validity import (
    cache_state,
    client_problems,
    clock,
    device_limit,
    duration,
    foreign_cpu,
    foreign_io,
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
        no_space, server_restart, client_problems, server_log, duration, transactions, clock, steal,
        foreign_cpu, foreign_io, device_limit, memory_limit, cache_state,
    )
}  # fmt: skip


def reason_to_doubt(evidence: Evidence, outcomes: Collection[str] = ()) -> str | None:
    """Why the trial is invalid, by the first rule that says so, or None when it may be believed.

    Rules named in `outcomes` are not asked: what they find is what the plan wants to know.
    """
    found = (judge(evidence) for name, judge in RULES.items() if name not in outcomes)
    return next((reason for reason in found if reason), None)
