"""Plans for tests: small, and complete."""

from octavo.plan.model import Plan, parse_plan

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
