"""Where slices are valid, according to the plan."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.plans import changed_plan, small_plan
from tests.unit.planted import plant

from octavo.errors import UsageError
from octavo.host import child_group
from octavo.lab.slices import eligibility
from octavo.lab.slices.eligibility import CellNeeds
from octavo.lab.slices.turns import USUAL
from octavo.plan.cells import make_cells
from octavo.plan.model import Plan, restore_plan
from octavo.units import parse_size
from octavo.workloads import find

PGBENCH = find("pgbench")


def why_not(plan: Plan) -> str | None:
    cells = [cell for cell in make_cells(plan) if "read-only" in cell.condition] or make_cells(plan)
    return eligibility.why_not(plan, find(plan.workload), cells)


def with_settings(**settings: str) -> Plan:
    lines = "\n".join(f'{name} = "{value}"' for name, value in {"checkpoint_timeout": "1h", **settings}.items())
    return changed_plan({"[baseline]": f"[settings]\n{lines}\n[baseline]"})


def test_blocks_of_a_server_take_turns() -> None:
    assert why_not(small_plan()) is None
    assert why_not(with_settings(work_mem="64MB", statement_timeout="0")) is None


@pytest.mark.parametrize(
    ("factor", "level"),
    [
        ("cache", "cold"), ("wal_regime", "steady"), ("device", "gp2:100"), ("rate", "100"),
    ],
)  # fmt: skip
def test_what_a_pause_would_change_is_measured_trial_by_trial(factor: str, level: str) -> None:
    reason = why_not(small_plan(**{factor: [level]}))
    assert reason is not None
    assert reason.startswith(f"{factor}: ")


@pytest.mark.parametrize(
    ("factor", "level"), [("memory", "1GB"), ("device", "mbps=40"), ("filesystem", "ext4/4kB"), ("page_cache", "64kB")]
)
def test_readers_take_turns_on_volumes_and_under_limits_of_their_own(factor: str, level: str) -> None:
    assert why_not(small_plan(**{factor: [level]})) is None


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ({"device": ["mbps=40"]}, None),  # it is paused with its cell
        ({"device": ["mbps=40"], "memory": ["256MB"]}, None),
        ({"memory": ["256MB"]}, "memory: "),
        ({"device": ["loop"], "memory": ["256MB"]}, None),
        ({"filesystem": ["xfs"], "memory": ["256MB"]}, None),
        ({"device": ["loop"], "memory": ["256MB"], "dirty_limits": ["64MB/256MB"]}, "dirty_limits: "),
        ({"device": ["mbps=40"], "dirty_limits": ["64MB/256MB"]}, "dirty_limits: "),
    ],
)
def test_writers_take_turns_where_nothing_is_written_back_meanwhile(
    factors: dict[str, list[str]], reason: str | None
) -> None:
    plan = small_plan(**factors)
    writers = [cell for cell in make_cells(plan) if "read-write" in cell.condition]
    why = eligibility.why_not(plan, find(plan.workload), writers)
    assert why is None if reason is None else why is not None and why.startswith(reason)


def test_what_paused_cells_have_dirtied_stays_below_the_kernels_threshold(tmp_path: Path) -> None:
    (tmp_path / "sys/vm").mkdir(parents=True)
    (tmp_path / "sys/vm/dirty_background_bytes").write_text("0\n")
    (tmp_path / "sys/vm/dirty_background_ratio").write_text("10\n")
    # 10 GB in addition to four servers of 144 MB, a tenth of which may be dirty
    (tmp_path / "meminfo").write_text(f"MemAvailable: {10 * 2**20 + 4 * 144 * 2**10} kB\n")
    workload, limited = find("pgbench"), {"device": "mbps=40", "mode": "read-write", "shared_buffers": "16MB"}

    def why(database: int, cells: int = 4, **levels: str) -> str | None:
        return eligibility.too_dirty(workload, [CellNeeds({**limited, **levels}, database, 0)] * cells, tmp_path)

    assert why(256 * 2**20) is None
    assert why(512 * 2**20) == "the cells together may have 2 GB dirty; the kernel allows 1 GB"
    assert why(256 * 2**20, shared_buffers="512MB") is not None  # no page cache once they are filled
    assert why(256 * 2**20, shared_buffers="512MB", huge_pages="2MB") is None
    assert why(2**40, memory="256MB") is None
    assert why(2**40, mode="read-only") is None
    assert why(2**40, device="native") is None
    assert why(2**40, device="loop") is None  # written back while it is paused
    assert why(2**40, device="loop", memory="512MB") is not None
    (tmp_path / "sys/vm/dirty_background_bytes").write_text(str(64 * 2**20))
    assert why(256 * 2**20) is not None
    # The writes of loads also matter on a device that all share.
    levels = {"device": "native", "shared_buffers": "16MB"}
    loads, queries = ([CellNeeds({**levels, "phase": phase}, 2**30, 0)] * 2 for phase in ("load", "queries"))
    assert eligibility.too_dirty(find("tpch"), loads, tmp_path) is not None
    assert eligibility.too_dirty(find("tpch"), queries, tmp_path) is None


def test_what_indexes_are_sorted_in_is_not_there_to_be_dirty(tmp_path: Path) -> None:
    (tmp_path / "sys/vm").mkdir(parents=True)
    (tmp_path / "sys/vm/dirty_background_bytes").write_text("0\n")
    (tmp_path / "sys/vm/dirty_background_ratio").write_text("10\n")
    # 4 GB in addition to two servers of 144 MB
    (tmp_path / "meminfo").write_text(f"MemAvailable: {4 * 2**20 + 2 * 144 * 2**10} kB\n")
    levels = {"device": "native", "shared_buffers": "16MB", "phase": "load"}

    def why(working: int) -> str | None:
        return eligibility.too_dirty(find("tpch"), [CellNeeds(levels, 192 * 2**20, 0, working)] * 2, tmp_path)

    assert why(64 * 2**20) is None
    assert why(256 * 2**20) == "the cells together may have 384 MB dirty; the kernel allows 358 MB"


@pytest.mark.parametrize(
    ("factor", "level"), [("fragmentation", "100%/movable"), ("zram_swap", "512MB"), ("overcommit", "never/80%")]
)
def test_memory_that_a_server_finds_is_not_shared_by_all(factor: str, level: str) -> None:
    """The server that starts first would have the huge pages that are left, and the others none."""
    for plan in (small_plan(**{factor: [level]}), modes_plan(**{factor: [level]})):
        assert str(why_not(plan)).startswith(f"{factor}: ")


def test_an_overcommit_without_a_limit_is_none_of_memory() -> None:
    assert why_not(small_plan(overcommit=["always"])) is None


def modes_plan(**changes: list[str]) -> Plan:
    modes = {'\ndata_block = "8kB"': '\nthp = "never"', 'data_block = ["4kB", "8kB"]': 'thp = ["never", "always"]'}
    return changed_plan(modes, **changes)


def test_a_knob_of_one_device_is_none_of_several_volumes() -> None:
    assert "readahead" in str(why_not(small_plan(device=["loop"], readahead=["64kB"])))
    assert why_not(small_plan(device=["loop"])) is None


def test_slices_under_a_limit_are_long_enough_for_what_the_kernel_lets_through_at_once() -> None:
    limited, native = (make_cells(small_plan(device=[level])) for level in ("mbps=40", "native"))
    assert eligibility.shortest_slice(limited) == 1.0
    assert (
        eligibility.shortest_slice(native)
        == eligibility.shortest_slice(make_cells(small_plan(device=["loop"])))
        == USUAL
    )


def test_with_groups_of_version_2_limited_cells_are_measured_trial_by_trial(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu io memory\n")
    assert "cgroup v2" in str(eligibility.not_here(PGBENCH, make_cells(small_plan(memory=["1GB"])), root=tmp_path))
    assert eligibility.not_here(PGBENCH, make_cells(small_plan()), root=tmp_path) is None
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text("0")
    assert eligibility.not_here(PGBENCH, make_cells(small_plan(memory=["1GB"])), root=tmp_path) is None


def test_a_limited_device_needs_groups_that_can_be_stopped(tmp_path: Path) -> None:
    """If only the client could be stopped, a cell's device would meanwhile serve the kernel's write-back."""
    cells = make_cells(small_plan(device=["mbps=40"]))
    (tmp_path / "blkio").mkdir()  # limits are set there, and not by a group of version 2
    (tmp_path / "blkio/blkio.throttle.read_bps_device").write_text("")

    def why(release: str) -> str | None:
        return eligibility.not_here(PGBENCH, cells, root=tmp_path, release=release)

    none = "device: this host has no control group in which a cell could be paused with its device"
    assert why("6.1.0-18-amd64") == none
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("")
    assert why("4.19.0-27-amd64") == why("5.1.21") == why("odd") == none
    assert why("5.2.0") is None
    assert eligibility.not_here(PGBENCH, make_cells(small_plan()), root=tmp_path, release="4.19.0") is None
    (tmp_path / "unified/system.slice").mkdir()  # Red Hat's 4.18 has it
    (tmp_path / "unified/system.slice/cgroup.freeze").write_text("0")
    assert why("4.18.0-553.el8.x86_64") is None


def test_loads_take_turns_only_where_they_can_be_paused(tmp_path: Path) -> None:
    tpch = {'workload = "pgbench"': 'workload = "tpch"', 'mode = ["read-only", "read-write"]': ""}
    loads, queries = (make_cells(changed_plan(tpch, phase=[phase])) for phase in ("load", "queries"))
    none = "this host has no control group in which a load could be paused"
    assert eligibility.not_here(find("tpch"), loads, root=tmp_path) == none
    assert eligibility.not_here(find("tpch"), queries, root=tmp_path) is None
    (tmp_path / "freezer").mkdir()
    (tmp_path / "freezer/cgroup.procs").write_text("")
    assert eligibility.not_here(find("tpch"), loads, root=tmp_path) is None


def test_with_version_1_there_is_the_freezer(tmp_path: Path) -> None:
    (tmp_path / "freezer").mkdir()
    (tmp_path / "freezer/cgroup.procs").write_text("")
    assert child_group.groups_can_freeze(tmp_path, "3.10.0")


def test_a_knob_of_the_host_may_be_set_but_not_differ() -> None:
    assert why_not(small_plan(swappiness=["10"])) is None
    compared = changed_plan(
        {'data_block = "8kB"': 'swappiness = "10"', 'data_block = ["4kB", "8kB"]': 'swappiness = ["10", "60"]'}
    )
    assert why_not(compared) == "swappiness applies to the whole host and differs between cells"


@pytest.mark.parametrize("name", ["statement_timeout", "lock_timeout", "transaction_timeout"])
def test_timeouts_of_sessions_are_not_met_while_they_stand_still(name: str) -> None:
    assert why_not(with_settings(**{name: "5s"})) == f"{name} keeps running while a session is paused"


def test_no_checkpoint_by_the_clock_falls_into_a_round() -> None:
    assert why_not(with_settings(checkpoint_timeout="30s")) is not None
    assert "checkpoint_timeout" in str(why_not(with_settings(checkpoint_timeout="30")))


def test_a_workload_may_have_settings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = changed_plan({"[baseline]": '[settings]\nwork_mem = "8MB"\n[baseline]'})
    monkeypatch.setattr(eligibility, "_TIMES", 30.0)
    assert "checkpoint_timeout" in str(why_not(plan))
    monkeypatch.setattr(type(PGBENCH), "settings", {"checkpoint_timeout": "1h"}, raising=False)
    assert why_not(plan) is None


def test_other_workloads_and_single_cells_are_measured_trial_by_trial() -> None:
    tail = changed_plan({'workload = "pgbench"': 'workload = "pgbench-tail"'})
    assert "pgbench-tail" in str(why_not(tail))
    other = changed_plan({'workload = "pgbench"': 'workload = "pooled"', 'mode = ["read-only", "read-write"]': ""})
    assert "pooled" in str(why_not(other))
    (first, *_) = make_cells(small_plan())
    assert eligibility.why_not(small_plan(), find("pgbench"), [first]) == "there is only one cell"


def test_instruments_that_were_asked_for_are_not_left_out() -> None:
    plan = changed_plan({"rounds = 4": 'rounds = 4\ninstruments = ["profile", "cpus"]'})
    assert "cpus" in str(why_not(plan))


def test_modes_of_huge_pages_are_switched_where_the_other_servers_can_be_paused(tmp_path: Path) -> None:
    plan = changed_plan(
        {
            "rounds = 4": 'rounds = 4\ninstruments = ["thp_mapped"]',
            '[baseline]\ndata_block = "8kB"': '[baseline]\nthp = "never"',
            "[factors]": '[factors]\nthp = ["never", "always"]\nswappiness = "1"',
        },
        data_block=["8kB"],
    )
    assert why_not(plan) is None
    why = "thp differs between cells, and this host has no control group in which one could be paused"
    assert eligibility.not_here(PGBENCH, make_cells(plan), plan.instruments, tmp_path) == why
    for level, sliced in {"off": True, "4096/10s": False}.items():
        scanned = [replace(cell, levels={**cell.levels, "khugepaged": level}) for cell in make_cells(plan)]
        assert (eligibility.why_not(plan, PGBENCH, scanned) is None) is sliced
    other = changed_plan(
        {
            '[baseline]\ndata_block = "8kB"': '[baseline]\nswappiness = "1"',
            "[factors]": '[factors]\nswappiness = ["1", "60"]',
        },
        data_block=["8kB"],
    )
    assert why_not(other) == "swappiness applies to the whole host and differs between cells"


def test_a_profile_is_taken_in_slices_where_it_can_be_of_one_server(tmp_path: Path) -> None:
    plan = changed_plan({"rounds = 4": 'rounds = 4\ninstruments = ["profile"]'})
    assert why_not(plan) is None
    why = "the instrument profile measures the whole machine: there are no control groups of version 2"
    assert eligibility.not_here(PGBENCH, make_cells(plan), plan.instruments, tmp_path) == why
    assert eligibility.not_here(PGBENCH, make_cells(plan), (), tmp_path) is None


def test_what_does_not_fit_at_once_is_measured_trial_by_trial() -> None:
    levels = {"shared_buffers": "16MB"}
    assert eligibility.no_room([CellNeeds(levels, 1024**2, 1024**2)]) is None
    assert "memory" in str(eligibility.no_room([CellNeeds(levels, 2**60, 1024**2)]))
    assert "memory" in str(eligibility.no_room([CellNeeds(levels, 1024**2, 1024**2, 2**60)]))
    assert "disk" in str(eligibility.no_room([CellNeeds(levels, 1024**2, 2**60)]))


@pytest.mark.parametrize(("mode", "limit_gb", "fits"), [("0", 1, True), ("2", 2, True), ("2", 1, False)])
def test_what_the_commit_limit_refuses_is_measured_trial_by_trial(
    tmp_path: Path, mode: str, limit_gb: int, fits: bool
) -> None:
    """Two servers with 512 MB each; 128 MB are committed by others. The page cache does not count."""
    memory = f"MemAvailable: {32 * 2**20} kB\nCommitLimit: {limit_gb * 2**20} kB\nCommitted_AS: {128 * 2**10} kB\n"
    plant(tmp_path, {"meminfo": memory, "sys/vm/overcommit_memory": f"{mode}\n"})
    needs = [CellNeeds({"shared_buffers": "512MB"}, 4 * 1024**3, 1024**2)] * 2
    reason = eligibility.no_room(needs, tmp_path)
    assert reason is None if fits else "vm.overcommit_memory = 2 leaves 896 MB" in str(reason)


@pytest.mark.parametrize(
    ("mode", "buffers", "fits"),
    [("read-only", "1GB", True), ("read-only", "16MB", False), ("read-write", "1GB", False)],
)
def test_what_is_only_read_and_in_shared_buffers_needs_no_page_cache(
    monkeypatch: pytest.MonkeyPatch, mode: str, buffers: str, fits: bool
) -> None:
    plan = small_plan(shared_buffers=[buffers])
    cells = [cell for cell in make_cells(plan) if mode in cell.condition]
    database = find("pgbench").database_bytes(cells[0].levels)
    memory = len(cells) * (parse_size(buffers) + database // 2 + 128 * 1024**2)

    def available(field: str, proc: Path) -> int:
        return int(memory / 0.9)

    monkeypatch.setattr(eligibility, "meminfo", available)
    assert database < parse_size("1GB")
    assert (eligibility.not_at_once(plan, find("pgbench"), cells) is None) == fits


def tpch_plan(phase: str, **settings: str) -> Plan:
    lines = "\n".join(f'{name} = "{value}"' for name, value in settings.items())
    tpch = {
        'workload = "pgbench"': 'workload = "tpch"',
        'mode = ["read-only", "read-write"]': f'phase = "{phase}"\nshared_buffers = "512MB"',
        "[baseline]": f"[settings]\n{lines}\n[baseline]",
    }
    return changed_plan(tpch)


@pytest.mark.parametrize(
    ("phase", "factor", "levels", "sliced"),
    [
        ("queries", "repetitions", ("1", "3"), False),
        ("queries", "min_time", ("none", "2s"), False),
        ("queries", "queries", ("1,6", "all"), False),
        ("load", "order", ("keys-first", "indexes-first"), False),
        ("queries", "order", ("keys-first", "indexes-first"), True),
        ("load", "repetitions", ("1", "3"), True),
        ("queries", "explain", ("off", "analyze"), True),
    ],
)
def test_cells_that_take_turns_have_the_same_pieces(
    phase: str, factor: str, levels: tuple[str, str], sliced: bool
) -> None:
    first, second = levels
    plan = changed_plan(
        {
            'workload = "pgbench"': 'workload = "tpch"',
            'data_block = "8kB"': f'{factor} = "{first}"',
            'data_block = ["4kB", "8kB"]': f'{factor} = ["{first}", "{second}"]',
            'mode = ["read-only", "read-write"]': f'phase = "{phase}"',
            "[baseline]": '[settings]\ncheckpoint_timeout = "24h"\n[baseline]',
        }
    )
    why = eligibility.why_not(plan, find("tpch"), make_cells(plan))
    assert why is None if sliced else why is not None and why.startswith(f"{factor} differs between cells")


def working(plan: Plan) -> set[int]:
    """The memory for the cells' sorts and hashes, in bytes."""
    workload = find(plan.workload)
    return {one.working for one in eligibility.needs_of(plan, workload, make_cells(plan))}


MB = 1024**2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 2 * 64 * MB),  # the workload's own work_mem, and no workers
        ({"work_mem": "16MB", "hash_mem_multiplier": "1.5", "max_parallel_workers_per_gather": "3"}, 4 * 24 * MB),
        ({"work_mem": "16384", "hash_mem_multiplier": "1"}, 16 * MB),
        ({"work_mem": "1MB", "max_parallel_workers_per_gather": "20"}, 9 * 2 * MB),
        ({"work_mem": "1MB", "max_parallel_workers_per_gather": "20", "max_worker_processes": "4"}, 5 * 2 * MB),
        ({"work_mem": "much", "hash_mem_multiplier": "nan"}, 2 * 4 * MB),  # which the server will refuse
    ],
)
def test_queries_hash_in_every_cell_at_once(settings: dict[str, str], expected: int) -> None:
    assert working(tpch_plan("queries", **settings)) == {expected}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 64 * MB),
        ({"maintenance_work_mem": "128MB", "max_parallel_maintenance_workers": "8"}, 128 * MB),  # of all workers
        ({"maintenance_work_mem": "131072", "work_mem": "1GB"}, 128 * MB),
    ],
)
def test_loads_sort_in_every_cell_at_once(settings: dict[str, str], expected: int) -> None:
    assert working(tpch_plan("load", **settings)) == {expected}


def test_nobody_sorts_more_than_there_is() -> None:
    plan = tpch_plan("queries", work_mem="1TB", max_parallel_workers_per_gather="1")
    database = find("tpch").database_bytes(make_cells(plan)[0].levels)
    assert working(plan) == {2 * database}
    assert working(tpch_plan("load", maintenance_work_mem="1TB")) == {database}


def test_a_setting_of_the_cell_says_what_it_sorts() -> None:
    plan = changed_plan(
        {
            'workload = "pgbench"': 'workload = "tpch"',
            'mode = ["read-only", "read-write"]': 'settings.work_mem = ["4MB", "32MB", "as-found"]',
        }
    )
    assert working(plan) == {2 * 4 * MB, 2 * 32 * MB, 2 * 64 * MB}
    assert working(with_settings(work_mem="1GB")) == {0}  # transactions of pgbench


def test_what_all_cells_hash_has_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def available(field: str, proc: Path) -> int:
        return int(3 * (512 + 128 + 128 + 1) * MB / 0.9)  # the database is in shared buffers

    monkeypatch.setattr(eligibility, "meminfo", available)
    for work_mem, fits in (("64MB", True), ("66MB", False)):
        plan = tpch_plan("queries", work_mem=work_mem)
        cells = make_cells(plan)
        assert len(cells) == 3
        assert (eligibility.not_at_once(plan, find("tpch"), cells) is None) == fits


@pytest.mark.parametrize("text", ["1ms", "11s", "soon"])
def test_a_slice_has_its_bounds(text: str) -> None:
    with pytest.raises(UsageError, match="slice"):
        changed_plan({"rounds = 4": f'rounds = 4\nslice = "{text}"'})


def test_a_plan_may_ask_for_slices_where_they_are_sound() -> None:
    plan = changed_plan({"rounds = 4": 'rounds = 4\ninterleave = "slices"\nslice = "250ms"'})
    assert plan.slice_seconds == 0.25
    eligibility.refuse(plan, find("pgbench"), make_cells(plan))
    cold = changed_plan({"rounds = 4": 'rounds = 4\ninterleave = "slices"'}, cache=["cold"])
    with pytest.raises(UsageError, match=r"interleave: .*a cold cache"):
        eligibility.refuse(cold, find("pgbench"), make_cells(cold))


def test_a_run_of_before_slices_goes_on_trial_by_trial() -> None:
    stored = small_plan().model_dump(mode="json")
    del stored["interleave"]
    assert restore_plan(stored).interleave == "trials"
