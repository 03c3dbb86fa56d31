"""The workload `coalescing` on a real server: the scans visit exactly the lists, and nobody writes meanwhile."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from octavo.analysis.document import make_document
from octavo.home import store_path
from octavo.host import cgroup
from octavo.lab.session import start_run
from octavo.plan.parse import parse_plan
from octavo.store.store import Store

pytestmark = pytest.mark.measures

# Other load on this machine is irrelevant here.
PLAN = """
name = "coalescing-small"
question = "Does reading a hole along save requests?"
workload = "coalescing"
rounds = 1
loads = 1
control = false

[baseline]
policy = "single"
hole = 0

[factors]
pattern = "bitmap 1%"
data_block = "4kB"
access = "direct"
cache = "cold"
table_size = "4MB"
duration = "1s"
memory = "MEMORY"

[[cells]]
policy = "coalesced"
hole = 2

[validity]
most_steal = "100%"
most_foreign_cpu = "1000%"
most_foreign_io = "100GB"
fewest_transactions = 1
most_clock_step = "1h"
"""


def observed(trial: dict[str, Any]) -> dict[str, float]:
    return {one["metric"]: one["value"] for one in trial["observations"] if one["item"] is None}


def test_a_reader_beside_a_server_that_names_the_blocks(home: Path) -> None:
    limited = os.geteuid() == 0 and cgroup.memory_controller() is not None
    plan = parse_plan(PLAN.replace("MEMORY", "256MB" if limited else "none"), origin="coalescing-small")
    ended = start_run(plan, "", "octavo run", 7, lambda event: None)
    with closing(Store.open(store_path())) as store:
        document = make_document(store, ended.run)
    assert [(trial["status"], trial["reason"]) for trial in document["trials"]] == [("ok", None)] * 2
    single, joined = sorted(document["trials"], key=lambda trial: int(trial["levels"]["hole"]))
    ones, others = observed(single), observed(joined)
    assert 0 < ones["wanted_share"] < 1
    assert ones["bytes_per_request"] == 4096
    assert ones["asked_per_wanted"] == 1
    assert others["bytes_per_request"] > 4096
    assert others["asked_per_wanted"] > 1  # a table with ten rows per block has holes of one and two blocks
    for values in (ones, others):
        assert values["blocks_per_second"] > 0
        assert values["first_dirtied"] > 0  # hint bits are counted if there are any
        assert values["dirtied"] == 0
        assert values["checkpoints"] == 0
