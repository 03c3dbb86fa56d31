"""The fragmented table on real servers, and units of the page cache on real volumes."""

import os
from pathlib import Path

import pytest
from tests.integration.servers import data_directory, running
from tests.integration.test_lab import observed, run

from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.host.loop_volume import loop_volume
from octavo.knobs import page_cache
from octavo.knobs.base import KnobTarget
from octavo.plan.parse import parse_plan
from octavo.postgres.builds.cache import Build
from octavo.units import parse_size
from octavo.workloads.kernel_page import WORKLOAD

_MB = 1024**2
_PLAN = """
name = "small"
question = "Does the whole way work?"
workload = "kernel-page"
rounds = 1
loads = 1
control = false

[baseline]
page_cache = "4kB"

[factors]
page_cache = ["4kB", "64kB"]
table = "40MB"
shared_buffers = "16MB"
duration = "1s"
cache = "cold"
recycled_wal = "32MB"

[validity]
fewest_transactions = 1
most_steal = "100%"  # this run is about the way, not about its numbers
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
most_clock_step = "1h"
"""


def cannot(level: str) -> str | None:
    return page_cache.KNOB.cannot(level, KnobTarget(Path("/")))


needs_units = pytest.mark.skipif(
    os.geteuid() != 0 or cannot("4kB") is not None or cannot("64kB") is not None, reason="no such page caches here"
)


@pytest.mark.beside
def test_one_row_a_block_and_every_tenth_is_read(build: Build, journal: Journal, account: Account) -> None:
    block = parse_size(build.manifest["data_block"])
    levels = {
        "table": "10MB",
        "data_block": build.manifest["data_block"],
        "cache": "cold",
        "duration": "1s",
        "workers": "as-planned",
        "memory": "none",
        "device": "native",
    }
    rows = 10 * _MB // block // 10 * 10
    with (
        data_directory(build, journal, account) as path,
        running(build, path, journal, account, shared_buffers="32MB") as server,
    ):
        WORKLOAD.fill(server, levels)
        server.execute("VACUUM (FREEZE, ANALYZE)")
        result = WORKLOAD.run(server, levels, 1)
    values = {one.metric: one.value for one in result.observations}
    assert result.transactions == values["runs"] == 1  # cold: a second run would not be
    # The table is in shared buffers, because it was just written; the index adds a few.
    seen = values["shared_hit_blocks"] + values["shared_read_blocks"]
    assert rows / 10 <= seen < rows / 10 + 200
    assert values["run_ms"] > 0
    (plan,) = result.facts["plans"].values()
    assert "on demo" in plan


@pytest.mark.alone
@needs_units
@pytest.mark.parametrize("level", ["4kB", "64kB"])
def test_a_cold_read_brings_in_one_unit(level: str, journal: Journal) -> None:
    kind, _, block = (page_cache.filesystem_of(level) or "").partition("/")
    with loop_volume(300 * _MB, kind, parse_size(block), journal) as volume:
        assert page_cache.measured(volume.directory) == page_cache.granularity(volume.directory) == parse_size(level)
        with page_cache.KNOB.applied(level, journal, KnobTarget(volume.directory)) as achieved:
            assert achieved.asked == level
        assert not list(volume.directory.glob("page-cache-*"))


@pytest.mark.alone
@needs_units
@pytest.mark.usefixtures("nothing_left", "builds")
def test_larger_units_read_what_nobody_asked_for(home: Path) -> None:
    ended, document, _ = run(parse_plan(_PLAN, origin="small.toml"))
    assert (ended.outcome.ok, ended.outcome.failed) == (2, 0)
    by_level = {trial["levels"]["page_cache"]: trial for trial in document["trials"]}
    small, large = (observed(by_level[level]) for level in ("4kB", "64kB"))
    assert small["amplification_formula"] == 1.0 and small["amplification"] == pytest.approx(1.0, rel=0.3)
    assert large["amplification_formula"] == 8.0 and large["amplification"] == pytest.approx(8.0, rel=0.3)
    assert (small["page_cache_kb"], large["page_cache_kb"]) == (4.0, 64.0)
    assert small["memory_page_kb"] == page_cache.memory_page() / 1024
    assert all("instruments_off" not in trial["facts"] for trial in by_level.values())  # no connection remained open
    told = by_level["64kB"]["facts"]["knobs"]["page_cache"]
    assert told["asked"] == "64kB" and told["achieved"].startswith("64kB by ")
