"""Which processes hold which memory, read from a planted /proc; predictions; the output of sysbench and of the
server."""

import mmap
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit import planted

from octavo import workloads
from octavo.errors import HostError, OctavoError, UsageError
from octavo.hugepages.savings import predictable, table_bytes
from octavo.plan.parse import parse_plan
from octavo.workload_support.server_memory import (
    ProcessMemory,
    TouchedRegions,
    clients,
    first_victim,
    largest_by_role,
    look,
    touched,
)
from octavo.workloads.oom import GrowingConnections, story
from octavo.workloads.pooled import MemoryPart, PageTableGrowth, client, pooler, predict, shared_page
from octavo.workloads.pooled import story as story_of_growth

MB = 1024**2
REGION = 2 * MB
BASE = 4096

SYSBENCH = """
SQL statistics:
    transactions:                        132565 (8833.33 per sec.)
    ignored errors:                      {errors}      (0.00 per sec.)

General statistics:
    total time:                          15.0070s

Latency (ms):
         avg:                                    2.26
         99th percentile:                       11.87
"""


def plant(proc: Path, pid: int, title: str, *, rss: int, swap: int, tables: int, anon: int) -> None:
    directory = proc / str(pid)
    (directory / "task" / str(pid)).mkdir(parents=True)
    (directory / "cmdline").write_text(title)
    (directory / "status").write_text(
        f"Name:\tpostgres\nVmRSS:\t{rss} kB\nRssAnon:\t{anon} kB\nVmPTE:\t{tables} kB\nVmSwap:\t{swap} kB\n"
    )
    (directory / "smaps_rollup").write_text(f"0-1 ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss:\t{rss // 10} kB\n")


def test_what_the_oom_killer_weighs_is_not_what_pss_says(tmp_path: Path) -> None:
    plant(tmp_path, 10, "/bin/postgres -D /data", rss=900, swap=0, tables=10, anon=5)
    plant(tmp_path, 11, "postgres: checkpointer ", rss=700, swap=250, tables=100, anon=5)
    plant(tmp_path, 12, "postgres: octavo octavo [local] idle", rss=500, swap=0, tables=20, anon=50)
    (tmp_path / "10/task/10/children").write_text("11 12 13")  # 13 has ended meanwhile
    found = look(10, pss=True, proc=tmp_path)
    assert [one.role for one in found] == ["postmaster", "checkpointer", "client backend"]
    victim = first_victim(found)
    assert victim is not None
    assert (victim.pid, victim.weight) == (11, 1050 * 1024)
    assert list(largest_by_role(found, "pss")) == ["postmaster", "checkpointer", "client backend"]
    assert [one.pid for one in clients(found)] == [12]
    assert clients(found)[0].private == 50 * 1024
    assert look(99, proc=tmp_path) == []
    assert first_victim([]) is None


def test_a_region_is_touched_when_any_of_its_pages_is_there(tmp_path: Path) -> None:
    pages = mmap.PAGESIZE
    region = pages * (pages // 8)
    start, end = 3 * region + pages, 7 * region  # the first region is incomplete
    (tmp_path / "5").mkdir()
    (tmp_path / "5/maps").write_text(
        f"{region:x}-{2 * region:x} r--p 00000000 00:01 9  /lib/libc.so\n"
        f"{start:x}-{end:x} rw-s 00000000 00:01 7                  /dev/zero (deleted)\n"
    )
    with (tmp_path / "5/pagemap").open("wb") as file:
        for address in (start, 5 * region + 17 * pages, 7 * region - pages, 8 * region):
            file.seek(address // pages * 8)
            file.write(struct.pack("<Q", 1 << 63))
    seen = touched(5, region, tmp_path)
    assert seen is not None
    assert seen.regions == {3, 5, 6}
    assert seen.share == 3 / 4
    assert seen.within(0, pages) == {3}
    assert touched(6, region, tmp_path) is None


@pytest.mark.skipif(mmap.PAGESIZE != BASE or not predictable(), reason="tables of another kind of machine")
@given(
    size=st.integers(3, 4000),
    new=st.sets(st.integers(0, 3999), max_size=40),
    private=st.integers(0, 500),
    first=st.integers(0, 3999),
)
def test_a_prediction_has_a_table_for_every_region_with_a_buffer(
    size: int, new: set[int], private: int, first: int
) -> None:
    regions = frozenset(region % size for region in new)
    first %= size
    memory = size * REGION
    upper = table_bytes(memory, BASE, BASE) - size * BASE
    fresh = ProcessMemory(1, "client backend", 0, 0, (private + len(regions)) * BASE + upper)
    seen = TouchedRegions(regions, 0, memory, REGION)
    buffers = MemoryPart("Buffer Blocks", first * REGION, memory - first * REGION)
    predicted, most = predict(fresh, seen, [buffers, MemoryPart("XLOG Ctl", 0, memory)], BASE)
    assert predicted is not None
    assert most == private * BASE + table_bytes(memory, BASE, BASE)
    assert predicted - fresh.tables == len(set(range(first, size)) - regions) * BASE
    assert predicted <= (most or 0)
    huge, same = predict(fresh, seen, [buffers], REGION)
    assert huge == same
    assert huge is not None
    assert huge >= table_bytes(memory, REGION, BASE)


def test_nothing_is_predicted_where_nothing_can_be_seen() -> None:
    assert predict(ProcessMemory(1, "client backend", 0, 0, BASE), None, [], BASE) == (None, None)
    names = {one.metric for one in PageTableGrowth(4, 10, 30).observations()}
    assert names == {"page_tables_bytes", "page_tables_growth_bytes", "page_tables_per_connection_bytes"}


def test_sysbench_is_read() -> None:
    result = client.parse(SYSBENCH.format(errors=0), "", 0, 15, 1.5)
    values = {one.metric: one.value for one in result.observations}
    assert values["tps"] == pytest.approx(132565 / 15.007)
    assert (values["latency_avg_ms"], values["latency_p99_ms"], result.transactions) == (2.26, 11.87, 132565)
    assert (result.seconds, result.problems) == (15.007, ())
    assert client.parse(SYSBENCH.format(errors=3), "", 0, 15, 1.5).problems == ("sysbench ignored 3 errors",)


@pytest.mark.parametrize("output", ["", "FATAL: Connection to database failed: no such file\n"])
def test_a_sysbench_that_measured_nothing_is_an_error_in_its_own_words(output: str) -> None:
    with pytest.raises(OctavoError, match="Connection to database failed" if output else "no output"):
        client.parse("", output, 1, 15, 1.5)


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pooler.children, "PLAIN_PATH", str(tmp_path))
    with pytest.raises(
        HostError, match=r"^pgbouncer is not installed; on Debian and Ubuntu: apt-get install pgbouncer$"
    ):
        pooler.program("pgbouncer")


def test_the_oom_experiment_refuses_to_run_without_a_group_of_its_own() -> None:
    text = 'name = "x"\nquestion = "?"\nworkload = "oom"\n[baseline]\nhuge_pages = "off"\n[factors]\nmemory = "none"\n'
    plan = parse_plan(text, origin="test")
    workload = workloads.find(plan.workload)
    with pytest.raises(UsageError, match="memory: required by the workload oom"):
        workload.contents({"memory": "none", "database": "128MB"})


def test_the_stories_name_who_is_killed() -> None:
    backend = ProcessMemory(7, "client backend", 90 * MB, 0, 10 * MB)
    crowd = GrowingConnections(
        3, {(1, 0)}, [backend, ProcessMemory(1, "postmaster", MB, 0, MB)], {"postmaster": 5 * MB}
    )
    text = story(crowd, 61.0, backend, 0)
    assert "killed: a client backend (PID 7) of 100 MB, after 3 connections and 1 min 1 s" in text
    assert "commits acknowledged: 1, lost: 0" in text
    assert "killed: nothing" in story(crowd, 61.0, None, 0)
    growth = story_of_growth(PageTableGrowth(2, MB, 3 * MB, 4 * MB), [backend])
    assert "1 MB when they were new, 3 MB at the end" in growth
    assert "killed first would be a client backend" in growth


@pytest.mark.parametrize(
    ("levels", "mode", "page"),
    [
        ({"huge_pages": "2MB", "shmem_thp": "always"}, "[always] within_size advise never deny force", 2 * MB),
        ({"shmem_thp": "within_size"}, "always [within_size] advise never deny force", 4 * MB),
        ({"shmem_thp": "as-found"}, "[always] within_size advise never deny force", 4 * MB),
        ({"huge_pages": "off"}, "always within_size [advise] never deny force", mmap.PAGESIZE),
        ({}, None, mmap.PAGESIZE),
    ],
)
def test_shared_memory_has_the_pages_that_the_kernel_gives(
    tmp_path: Path, levels: dict[str, str], mode: str | None, page: int
) -> None:
    place = "kernel/mm/transparent_hugepage"
    if mode is not None:
        planted.plant(tmp_path, {f"{place}/shmem_enabled": f"{mode}\n", f"{place}/hpage_pmd_size": f"{4 * MB}\n"})
    assert shared_page(levels, tmp_path) == page
