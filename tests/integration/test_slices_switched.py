"""A real round in slices whose cells differ in their modes of transparent huge pages."""

from contextlib import closing
from pathlib import Path

import pytest
from tests.integration.conftest import needs_root
from tests.integration.servers import MB

from octavo.analysis.document import make_document
from octavo.home import store_path
from octavo.lab.runnable import cannot_run
from octavo.lab.session import start_run
from octavo.lab.slices import eligibility
from octavo.plan.cells import make_cells
from octavo.plan.parse import parse_plan
from octavo.store.store import Store
from octavo.workloads import find

pytestmark = pytest.mark.alone

PLAN = """
name = "modes"
question = "Does each cell have its own modes?"
workload = "pgbench"
rounds = 1
loads = 1
control = false
instruments = ["thp_mapped"]

[baseline]
thp = "never"
shmem_thp = "never"

[factors]
thp = ["never", "always"]
shmem_thp = ["never", "always"]
mode = "tpcb"
scale = 8
clients = 2
duration = "2s"
recycled_wal = "64MB"
shared_buffers = "256MB"

[settings]
autovacuum = "off"
checkpoint_timeout = "1h"

[validity]  # these trials are about the way, not about their numbers
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
most_clock_step = "1h"
fewest_transactions = 1
"""
_MODES = Path("/sys/kernel/mm/transparent_hugepage")
_FILES = (
    _MODES / "enabled", _MODES / "shmem_enabled", _MODES / "khugepaged/pages_to_scan",
    Path("/proc/sys/vm/min_free_kbytes"),
)  # fmt: skip


@needs_root
def test_each_cell_has_the_huge_pages_of_its_own_modes(home: Path, nothing_left: None) -> None:
    plan = parse_plan(PLAN, origin="test")
    cells = make_cells(plan)
    if reason := eligibility.not_here(find(plan.workload), cells) or next(filter(None, map(cannot_run, cells)), None):
        pytest.skip(reason)
    before = [path.read_text() for path in _FILES]
    ended = start_run(plan, "", "octavo run", 7, lambda _: None)
    assert [path.read_text() for path in _FILES] == before
    with closing(Store.open(store_path())) as store:
        trials = make_document(store, ended.run)["trials"]
    assert [(trial["status"], trial["reason"]) for trial in trials] == [("ok", None)] * 4
    for trial in trials:
        facts, levels = trial["facts"], trial["levels"]
        assert facts["interleave"] == "slices"
        assert {name: facts["knobs"][name]["achieved"] for name in ("thp", "shmem_thp")} == {
            name: levels[name] for name in ("thp", "shmem_thp")
        }
        assert facts["knobs_drifted"] == []
        values = {one["metric"]: one["value"] for one in trial["observations"] if one["item"] is None}
        assert (values["process_shmem_huge_bytes"] > 50 * MB) == (levels["shmem_thp"] == "always")
        assert values["tps"] > 0
