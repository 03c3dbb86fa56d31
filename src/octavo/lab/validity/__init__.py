"""Validity: the rules by which a measured trial is not believed. A new one is a file here and a line in the table.

A rule may not depend on what a factor can cause: fewer checkpoints or more memory pressure may be the outcome.
"""

from collections.abc import Callable

from octavo.lab.validity import client_problems, duration, server_restart, steal, transactions
from octavo.lab.validity.evidence import Evidence

RULES: tuple[Callable[[Evidence], str | None], ...] = (
    server_restart.judge,
    client_problems.judge,
    duration.judge,
    transactions.judge,
    steal.judge,
)


def reason_to_doubt(evidence: Evidence) -> str | None:
    """Why the trial is invalid, by the first rule that says so, or None when it may be believed."""
    return next((reason for rule in RULES if (reason := rule(evidence))), None)
