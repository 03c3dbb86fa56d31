"""Small, complete plans for tests."""

from collections.abc import Mapping

from octavo.plan.model import Plan
from octavo.plan.parse import parse_plan

TEXT = """
name = "small"
question = "Which?"
workload = "pgbench"
rounds = 4
loads = 2

[baseline]
data_block = "8kB"

[factors]
data_block = ["4kB", "8kB"]
mode = ["read-only", "read-write"]
"""


def small_plan(**changes: list[str]) -> Plan:
    return parse_plan(TEXT, origin="small.toml", changes=changes)


def changed_plan(replacements: Mapping[str, str], **changes: list[str]) -> Plan:
    """The small plan with parts of its text replaced; text put before [baseline] may be keys or whole tables."""
    text = TEXT
    for old, new in replacements.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return parse_plan(text, origin="small.toml", changes=changes)
