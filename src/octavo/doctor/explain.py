"""Descriptions of the rules, for `--explain` and for docs/doctor.md."""

from collections.abc import Iterable

from octavo.doctor.engine import DoctorRule


def explain(rule: DoctorRule) -> str:
    """The description of a rule for the terminal."""
    return f"{rule.name}: {rule.asks}\nA finding: {rule.finds}.\nSource: {rule.source}."


def table(rules: Iterable[DoctorRule]) -> str:
    """All rules as a Markdown table."""
    rows = [f"| `{rule.name}` | {rule.asks} | {rule.finds} | {rule.source} |" for rule in rules]
    return "\n".join(["| rule | asks | a finding when | source |", "| --- | --- | --- | --- |", *rows])
