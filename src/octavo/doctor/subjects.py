"""The findings that other commands show for their subject, in the doctor's wording."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from octavo.doctor.engine import examine
from octavo.doctor.facts import Facts
from octavo.doctor.lines import refuses_alter_system
from octavo.doctor.rules import RULES
from octavo.text import printable

Subject = Literal["huge pages", "host"]
SUBJECTS: Mapping[Subject, tuple[str, ...]] = {
    "huge pages": (
        "huge-pages-group", "huge-pages", "huge-pages-pool", "huge-page-size", "huge-pages-nodes", "huge-pages-boot",
        "shared-memory-type", "page-tables",
    ),
    "host": ("transparent-huge-pages", "khugepaged", "overcommit", "cpu-governor", "numa"),
}  # fmt: skip


def rules_on(subject: Subject, facts: Facts) -> list[dict[str, Any]]:
    """The results of a subject's rules, in the form of a doctor's report."""
    results = examine(facts, [RULES[name] for name in SUBJECTS[subject]])
    return [one.as_dict(in_file=refuses_alter_system(facts)) for one in results]


def lines(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The findings among them for the terminal, each with its cost and remedy."""
    found = [one for one in results if one["status"] == "finding"]
    if not found:
        return []
    rows = ["octavo doctor finds:"]
    for one in found:
        rows.append(f"  {one['severity']}: {one['rule']}: {one['text']}; {one['cost']}")
        rows += [f"      {line}" for line in one["fix"]]
    return [printable(row) for row in rows]
