"""The readers of /proc and of counters on planted files, and the catalogue of instruments."""

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest
from tests.unit.planted import machine, plant, process, target

from octavo.errors import OctavoError, UsageError
from octavo.host.procfs import ProcFile
from octavo.instruments import OPTIONAL, instruments, perf_events
from octavo.instruments.base import Sampled, UnavailableError
from octavo.instruments.cpu import INSTRUMENT as CPU
from octavo.instruments.cpus import INSTRUMENT as CPUS
from octavo.instruments.device import INSTRUMENT as DEVICE
from octavo.instruments.figures import TrialWork, points, totals
from octavo.instruments.huge_page_events import INSTRUMENT as HUGE_PAGE_EVENTS
from octavo.instruments.memory import INSTRUMENT as MEMORY
from octavo.instruments.perf_events import SOFTWARE, Event
from octavo.instruments.pressure import INSTRUMENT as PRESSURE
from octavo.instruments.processes import INSTRUMENT as PROCESSES
from octavo.instruments.pss import Pss
from octavo.instruments.relations import INSTRUMENT as RELATIONS
from octavo.instruments.statements import INSTRUMENT as STATEMENTS
from octavo.instruments.target import Rows, Target
from octavo.instruments.tlb import Tlb
from octavo.instruments.vmstat import INSTRUMENT as VMSTAT
from octavo.instruments.wait_events import INSTRUMENT as WAIT_EVENTS
from octavo.observation import Metric
from octavo.postgres.cluster import Server
from octavo.postgres.process_roles import role_of
from octavo.workloads.base import WorkloadResult

MEMINFO = (
    "MemTotal:  1000 kB\nMemAvailable:  500 kB\nCached: 200 kB\nSwapTotal: 100 kB\nSwapFree: 60 kB\nPageTables: 7 kB\n"
    "HugePages_Total:  4\nHugePages_Free:  1\n"
)


def reading(instrument: Sampled, proc: Path, change: Callable[[], object] = lambda: None) -> dict[str, float]:
    """The figures between two readings that are a second apart."""
    reader = instrument.open(target(proc))
    first = reader.read()
    change()
    last = reader.read()
    reader.close()
    found = [*points(instrument.figures, first, last, 1.0), *totals(instrument.figures, first, last, 1.0, TrialWork())]
    return {metric.name if item is None else f"{metric.name} {item}": value for metric, item, value in found}


def test_memory_is_told_in_bytes_and_huge_pages_in_pages(tmp_path: Path) -> None:
    found = reading(MEMORY, plant(tmp_path, {"meminfo": MEMINFO}))
    assert found["memory_available_bytes"] == 500 * 1024
    assert found["memory_page_tables_bytes"] == 7 * 1024
    assert found["swap_used_bytes"] == 40 * 1024
    assert (found["huge_pages_total"], found["huge_pages_free"]) == (4, 1)
    assert "memory_dirty_bytes" not in found  # a value that a kernel does not report is left out, not zero


def test_a_file_larger_than_the_buffer_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"x" * 100_000)
    for kept in (True, False):
        file = ProcFile(path, kept=kept)
        assert file.read() == b"x" * 100_000
        file.close()


def test_cpu_shares_are_of_the_whole_machine(tmp_path: Path) -> None:
    plant(tmp_path, machine(user=100, idle=100))
    found = reading(CPU, tmp_path, lambda: plant(tmp_path, machine(user=130, system=10, idle=150, steal=10)))
    assert found["cpu_user_share"] == pytest.approx(0.3)
    assert found["cpu_busy_share"] == pytest.approx(0.4)
    assert found["cpu_steal_share"] == pytest.approx(0.1)


def test_each_cpu_is_told_by_itself(tmp_path: Path) -> None:
    plant(tmp_path, {"stat": "cpu  9 9 9 9 9 9 9 9\ncpu0 0 0 0 100 0 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\n"})
    later = {"stat": "cpu  9 9 9 9 9 9 9 9\ncpu0 30 0 10 150 0 0 10 0 0 0\ncpu1 0 0 0 150 25 0 0 25 0 0\n"}
    found = reading(CPUS, tmp_path, lambda: plant(tmp_path, later))
    assert found["each_cpu_busy_share cpu0"] == pytest.approx(0.5)
    assert found["each_cpu_interrupt_share cpu0"] == pytest.approx(0.1)
    assert (found["each_cpu_iowait_share cpu1"], found["each_cpu_steal_share cpu1"]) == (0.25, 0.25)
    assert "each_cpu_busy_share" not in found


def test_a_cpu_that_was_offline_goes_on_from_its_counters(tmp_path: Path) -> None:
    """And one that was offline at the beginning, whose counters are since boot, is left out."""
    both = "cpu  9 9 9 9 9 9 9 9\ncpu0 0 0 0 {0} 0 0 0 0 0 0\ncpu1 900 0 0 {0} 0 0 0 0 0 0\n"
    reader = CPUS.open(target(plant(tmp_path, {"stat": both.format(100)})))
    reader.read()
    plant(tmp_path, {"stat": "cpu  9 9 9 9 9 9 9 9\ncpu0 0 0 0 200 0 0 0 0 0 0\n"})
    without = reader.read()
    plant(tmp_path, {"stat": both.format(300) + "cpu2 700 0 0 300 0 0 0 0 0 0\n"})
    found = {item: value for _, item, value in points(CPUS.figures[:1], without, reader.read(), 1.0)}
    assert found == {"cpu0": 0.0, "cpu1": 0.0}


def test_wait_events_are_shares_of_all_samples_of_active_sessions() -> None:
    samples = iter([{"running": 2}, {"running": 1, "LWLock:WALWrite": 3}, {}, {"LWLock:WALWrite": 1, "running": 1}])

    def query(name: str) -> Rows:
        assert name == "wait_events"
        return [{"event": event, "sessions": sessions} for event, sessions in next(samples).items()]

    reader = WAIT_EVENTS.open(Target(query, 180000, None, None, None))
    readings = [reader.read() for _ in range(4)]
    found = {
        (metric.name, item): value
        for metric, item, value in totals(WAIT_EVENTS.figures, readings[0], readings[3], 0.3, TrialWork())
    }
    assert found["wait_event_share", "LWLock:WALWrite"] == 4 / 8
    assert found["wait_event_samples", "LWLock:WALWrite"] == 4
    assert found["wait_event_share", "running"] == 2 / 6  # from its second sample on: the first one is before the load


def test_vmstat_is_in_the_units_it_says(tmp_path: Path) -> None:
    def counters(n: int) -> dict[str, str]:
        events = f"pgpgin {n}\npswpout {n}\npgfault {n}\npgscan_kswapd {n}\npgscan_direct {n}\n"
        return {"vmstat": events, "stat": f"cpu 1\nintr {n} 0 1\nctxt {n}\nprocs_running 3\nprocs_blocked 2\n"}

    plant(tmp_path, counters(10))
    found = reading(VMSTAT, tmp_path, lambda: plant(tmp_path, counters(17)))
    assert found["paged_in_kb_per_second"] == 7
    assert found["swapped_out_bytes_per_second"] == 7 * os.sysconf("SC_PAGE_SIZE")
    assert found["pages_scanned_per_second"] == 14
    assert (found["tasks_running"], found["tasks_blocked"], found["interrupts_per_second"]) == (3, 2, 7)
    assert found["context_switches_per_second"] == 7


def test_pressure_is_a_share_of_the_time(tmp_path: Path) -> None:
    def totals_of(some: int) -> dict[str, str]:
        text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        return {f"pressure/{resource}": text for resource in ("cpu", "memory", "io")}

    plant(tmp_path, totals_of(0))
    found = reading(PRESSURE, tmp_path, lambda: plant(tmp_path, totals_of(250_000)))
    assert found["pressure_some cpu"] == 0.25
    assert found["pressure_full io"] == 0.0
    assert "pressure_full cpu" not in found  # the kernel's zero says nothing


@pytest.mark.parametrize("is_disk", [False, True])
def test_flushes_of_a_partition_are_left_out_and_not_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_disk: bool
) -> None:
    """The kernel counts those of whole disks only."""
    if is_disk:
        plant(tmp_path, {"254:1/mq/0/nr_tags": "64\n"})

    class Statistics:
        major, minor = 254, 1

        def __getattr__(self, name: str) -> int:
            return 0

    def statistics(_: str) -> Statistics:
        return Statistics()

    monkeypatch.setattr("octavo._core.device_statistics", statistics)
    monkeypatch.setattr("octavo.instruments.device._DEVICES", tmp_path)
    found = DEVICE.open(Target(nothing, 180000, tmp_path, None, None)).read()[None]
    assert ("flushes" in found) is is_disk
    assert found["reads"] == 0


def test_events_of_huge_pages_are_counted(tmp_path: Path) -> None:
    plant(tmp_path, {"vmstat": "thp_fault_alloc 5\ncompact_stall 1\ncompact_migrate_scanned 100\n"})
    later = {"vmstat": "thp_fault_alloc 9\ncompact_stall 1\ncompact_migrate_scanned 170\n"}
    found = reading(HUGE_PAGE_EVENTS, tmp_path, lambda: plant(tmp_path, later))
    assert (found["thp_fault_alloc"], found["compact_stall"]) == (4, 0)
    assert found["compact_pages_scanned"] == 70  # not all of them are moved


@pytest.mark.parametrize("name", ["memory", "vmstat", "pressure", "huge_page_events", "processes", "pss", "device"])
def test_a_kernel_that_lacks_it_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    instrument = instruments()[name]
    assert isinstance(instrument, Sampled)
    with pytest.raises(UnavailableError) as caught:
        instrument.open(target(tmp_path))
    assert str(caught.value)
    assert "\n" not in str(caught.value)


def child(pid: int, title: str, *, shmem: int = 0, tables: int = 0, on_cpu: int = 0, score: int = 0) -> dict[str, str]:
    return {
        f"{pid}/cmdline": title,
        f"{pid}/status": f"Name:\tpostgres\nRssAnon:\t 10 kB\nRssShmem:\t{shmem} kB\nVmPTE:\t{tables} kB\n",
        f"{pid}/schedstat": f"{on_cpu} 5 1\n",
        f"{pid}/oom_score": f"{score}\n",
    }


def family(*pids: int) -> dict[str, str]:
    return {"1/task/1/children": " ".join(map(str, pids)), **child(1, "/usr/bin/postgres\0-D\0/data", tables=1)}


def test_processes_are_added_up_by_role_or_the_largest_shows(tmp_path: Path) -> None:
    plant(tmp_path, family(2, 3, 4))
    plant(tmp_path, child(2, "postgres: checkpointer ", shmem=100, tables=10, score=3))
    plant(tmp_path, child(3, "postgres: app shop [local] idle", shmem=40, tables=20, score=9))
    plant(tmp_path, child(4, "postgres: app shop 10.0.0.9(4711) SELECT", shmem=70, tables=30, score=7))
    reader = PROCESSES.open(target(tmp_path, postmaster=1))
    found = reader.read()
    clients = found["client backend"]
    assert (clients["count"], clients["shmem"], clients["tables"], clients["oom_score"]) == (2, 70, 50, 9)
    assert found["checkpointer"]["shmem"] == 100
    assert found[None]["tables"] == 61
    assert found[None]["private"] == 40


def test_what_ended_processes_used_is_not_forgotten(tmp_path: Path) -> None:
    plant(tmp_path, family(2, 3))
    plant(tmp_path, child(2, "postgres: app shop [local] idle", on_cpu=1000))
    plant(tmp_path, child(3, "postgres: app shop [local] idle", on_cpu=500))
    reader = PROCESSES.open(target(tmp_path, postmaster=1))
    before = reader.read()
    plant(tmp_path, family(3))
    plant(tmp_path, child(3, "postgres: app shop [local] idle", on_cpu=700))
    after = reader.read()
    assert after["client backend"]["count"] == 1
    assert after["client backend"]["on_cpu"] - before["client backend"]["on_cpu"] == 200
    assert after[None]["on_cpu"] >= before[None]["on_cpu"]


def test_a_process_that_the_kernel_did_not_list_is_not_counted_twice(tmp_path: Path) -> None:
    """As the list of children may lack some while others end."""
    plant(tmp_path, family(2, 3))
    for pid in (2, 3):
        plant(tmp_path, child(pid, "postgres: app shop [local] idle", on_cpu=1000) | process(pid, 1, "postgres"))
    reader = PROCESSES.open(target(tmp_path, postmaster=1))
    before = reader.read()
    plant(tmp_path, family(3))
    assert reader.read() == before
    plant(tmp_path, family(2, 3))
    assert reader.read() == before


def test_more_processes_than_descriptors_are_still_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.instruments.processes.descriptors_to_spare", lambda: 6)
    pids = range(2, 12)
    plant(tmp_path, family(*pids))
    for pid in pids:
        plant(tmp_path, child(pid, "postgres: app shop [local] idle", tables=1))
    opened = len(list(Path("/proc/self/fd").iterdir()))
    reader = PROCESSES.open(target(tmp_path, postmaster=1))
    assert reader.read()["client backend"]["count"] == 10
    assert len(list(Path("/proc/self/fd").iterdir())) - opened <= 7
    reader.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


@pytest.mark.parametrize("name", ["schedstat", "oom_score"])
def test_a_kernel_without_a_file_of_processes_is_told(tmp_path: Path, name: str) -> None:
    """And none of the files that it has stays open."""
    plant(tmp_path, family(2))
    plant(tmp_path, child(2, "postgres: checkpointer "))
    for pid in (1, 2):
        (tmp_path / str(pid) / name).unlink()
    opened = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(UnavailableError, match=f"this kernel has no {name}"):
        PROCESSES.open(target(tmp_path, postmaster=1))
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_a_kernel_without_smaps_rollup_has_no_pss(tmp_path: Path) -> None:
    plant(tmp_path, family(2))
    with pytest.raises(UnavailableError, match="no smaps_rollup"):
        Pss().open(target(tmp_path, postmaster=1))


def test_a_server_that_has_ended_is_no_kernel_without_a_file(tmp_path: Path) -> None:
    """The instrument would be off in the later trials, too."""
    with pytest.raises(OctavoError, match="is gone"):
        Pss().open(target(tmp_path, postmaster=1))


def test_pss_is_off_once_it_costs_more_than_its_budget(tmp_path: Path) -> None:
    plant(tmp_path, {**family(2), "1/smaps_rollup": "x\nPss: 5 kB\nPss_Shmem: 2 kB\n",
                     "2/smaps_rollup": "x\nPss: 7 kB\nPss_Shmem: 3 kB\n"})  # fmt: skip
    assert Pss().open(target(tmp_path, postmaster=1)).read() == {None: {"pss": 12.0, "shmem": 5.0}}
    with pytest.raises(UnavailableError, match="more than its budget"):
        Pss(budget_share=0.0).open(target(tmp_path, postmaster=1)).read()


def test_a_kernel_that_does_not_divide_pss_has_no_shared_part(tmp_path: Path) -> None:
    plant(tmp_path, {**family(), "1/smaps_rollup": "x\nPss: 5 kB\n"})
    assert Pss().open(target(tmp_path, postmaster=1)).read() == {None: {"pss": 5.0}}


def test_a_relation_that_was_not_among_the_largest_before_has_no_growth() -> None:
    """It has not grown by all of its size."""
    sizes = iter([{"a": 100.0}, {"a": 150.0, "b": 900.0}])

    class Asked:
        def query(self, name: str) -> Rows:
            assert name == "relations"
            return [{"item": item, "bytes": size} for item, size in next(sizes).items()]

    stop = RELATIONS.start(cast("Server", Asked()))
    found = [(one.metric, one.item, one.value) for one in stop(WorkloadResult((), 0.0, 0))]
    assert found == [
        ("relation_bytes", "a", 150.0), ("relation_growth_bytes", "a", 50.0), ("relation_bytes", "b", 900.0),
    ]  # fmt: skip


def test_a_statement_that_was_dropped_meanwhile_has_no_negative_time() -> None:
    """pg_stat_statements.max: it drops the least used ones, and counts them from zero when it meets them again."""
    counters = dict.fromkeys(("reads", "hits", "temporary", "wal_bytes"), 0.0)
    kept, dropped = ({"item": item, "calls": 5.0, "milliseconds": 900.0, **counters} for item in ("kept", "dropped"))
    later = [{**kept, "calls": 7.0, "milliseconds": 1000.0}, {**dropped, "calls": 8.0, "milliseconds": 100.0}]
    answers = iter([[kept, dropped], later])

    class Asked:
        connection = Mock()
        execute = Mock()

        def query(self, name: str) -> Rows:
            return [{"preloaded": True}] if name == "has_statements" else next(answers)

    stop = STATEMENTS.start(cast("Server", Asked()))
    found = {(one.metric, one.item): one.value for one in stop(WorkloadResult((), 0.0, 0))}
    assert found["statement_seconds", "kept"] == pytest.approx(0.1)
    assert {item for _, item in found} == {"kept"}


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("postgres: walsender rep 10.0.0.3(5000) streaming 0/3000148", "walsender"),
        ("postgres: autovacuum worker shop", "autovacuum worker"),
        ("postgres: logical replication apply worker for subscription 16400", "logical replication worker"),
        ("postgres: parallel worker for PID 812 ", "parallel worker"),
        ("postgres: pg_cron launcher ", "background worker"),
        ("postgres: startup recovering 000000010000000000000003", "startup"),
        ("postgres: checkpointer\0\0", "checkpointer"),
        ("postgres: startups shop [local] idle", "client backend"),
        ("postgres: logger shop [local] idle", "client backend"),
        ("postgres: archiver wal 10.0.0.3(5000) COPY", "client backend"),
        ("", None),
    ],
)
def test_roles(title: str, role: str | None) -> None:
    assert role_of(title) == role


def nothing(name: str) -> Rows:
    raise AssertionError(f"{name} was asked of a server that is not there")


def test_counters_of_the_cpu_by_those_that_every_kernel_has() -> None:
    """The machine's TLB counters may be absent; a software event takes the same path through the kernel."""
    faults = Tlb({"load_misses": Event(SOFTWARE, 2), "nonsense": Event(SOFTWARE, 999)})
    here = Target(nothing, 180000, None, os.getpid(), None)
    try:
        reader = faults.open(here)
    except UnavailableError as error:
        pytest.skip(str(error))
    before = reader.read()
    touched = bytearray(64 * os.sysconf("SC_PAGE_SIZE"))
    child = os.fork()
    if child == 0:
        touched[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * 64  # pages of the child
        os._exit(0)
    os.waitpid(child, 0)
    after = reader.read()
    reader.close()
    assert after[None]["load_misses"] - before[None]["load_misses"] >= 64
    assert "nonsense" not in after[None]


def test_an_event_without_a_counter_is_missing_with_the_reason_and_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of perf_event_open's descriptors: the count, the time enabled, the time with a counter."""
    readings = {"loads": (5, 2000, 1000), "load_misses": (0, 2000, 0), "store_misses": (0, 0, 0)}

    def open_event(event: Event, **_: object) -> int:
        reading, writing = os.pipe()
        os.write(writing, struct.pack("=QQQ", *readings[("loads", "load_misses", "store_misses")[event.config]]))
        os.close(writing)
        return reading

    def no_children(*_: object) -> list[int]:
        return []

    monkeypatch.setattr(perf_events, "open_event", open_event)
    events = {name: Event(SOFTWARE, number) for number, name in enumerate(readings)}
    alone = Target(nothing, 180000, None, os.getpid(), None)
    monkeypatch.setattr("octavo.instruments.tlb.child_pids", no_children)
    reader = Tlb(events).open(alone)
    assert reader.read() == {None: {"loads": 10.0, "store_misses": 0.0}}
    assert reader.lacking() == "no counter of the CPU was free for load_misses"
    reader.close()


def test_no_two_instruments_share_a_metric() -> None:
    names = [
        (metric.name, name)
        for name, instrument in instruments(optional=OPTIONAL).items()
        for metric in _metrics(instrument)
    ]
    seen = [name for name, _ in names]
    assert len(seen) == len(set(seen)), [pair for pair in names if seen.count(pair[0]) > 1]


def _metrics(instrument: object) -> Iterator[Metric]:
    if isinstance(instrument, Sampled):
        yield from (figure.metric for figure in instrument.figures)
    else:
        yield from getattr(instrument, "metrics")  # noqa: B009


def test_every_metric_is_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs/instruments.md").read_text()
    missing = [
        metric.name
        for instrument in instruments(optional=OPTIONAL).values()
        for metric in _metrics(instrument)
        if f"`{metric.name}`" not in text
    ]
    assert missing == []


def test_an_unknown_optional_instrument_is_named() -> None:
    with pytest.raises(UsageError, match=r"'perf'.*profile"):
        instruments(optional=["perf"])
