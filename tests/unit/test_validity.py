import errno
import itertools
import os
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit import planted

from octavo.host.page_cache import cached_bytes
from octavo.host.process_table import Process, growth, read_table, settled_table, tree
from octavo.lab.server_log import read_log
from octavo.lab.validity import RULES, first_doubt
from octavo.lab.validity.evidence import Evidence
from octavo.lab.validity.surroundings import Surroundings
from octavo.lab.validity.watch import Watcher
from octavo.plan.thresholds import RULE_NAMES, Thresholds
from octavo.workloads.base import WorkloadResult

MB = 1024**2
GB = 1024**3
TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parents[2]

SOUND = WorkloadResult((), 30.0, 90_000, seconds_asked=30.0, client_cpu_seconds=9.0, output="tps = 3000")
QUIET = Surroundings(30.0, 0.0, foreign_cpu_share=0.004, own_read_bytes=0, foreign_read_bytes=0)
BACKEND = "2025-01-02 03:04:05.678 UTC [77] client backend "
FACTS = {"database_bytes": 1 * GB}


def evidence(
    numbers: dict[str, float] | None = None, *, around: dict[str, Any] | None = None, **changes: Any
) -> Evidence:
    surroundings = Surroundings(**{**{n: getattr(QUIET, n) for n in QUIET.__slots__}, **(around or {})})
    values: dict[str, Any] = {
        "result": SOUND, "numbers": {"cpu_steal_share": 0.001, **(numbers or {})}, "server_alive": True,
        "started_before": 1.5, "started_after": 1.5, "server_log": BACKEND + "LOG:  an ERROR: in words\n",
        "thresholds": Thresholds(), "facts": FACTS, "surroundings": surroundings,
        "levels": {"cache": "warm", "shared_buffers": "128MB"},
    }  # fmt: skip
    return Evidence(**{**values, **changes})


def told(text: str, problem: str = "") -> WorkloadResult:
    return WorkloadResult(
        (),
        30.0,
        90_000,
        seconds_asked=30.0,
        client_cpu_seconds=9.0,
        problems=(problem,) if problem else (),
        output=text,
    )


COLD = {"cache": "cold", "shared_buffers": "128MB"}
LIMITED = {"database_bytes": 2 * GB, "memory_limit_bytes": 512 * MB}
RESTARTED = {"database_bytes": 1 * GB, "restarts": 9, "cold_requested_bytes": 6 * GB}
CRASH = (
    "2025-01-02 03:04:05.678 UTC [9] postmaster LOG:  client backend (PID 77) was terminated by signal 9: Killed\n"
    "2025-01-02 03:04:05.678 UTC [9] postmaster LOG:  terminating any other active server processes\n"
)
# A volume of 40 MB/s that served 39 of them, and one that served 30: they can have lost at most 2.6 %, and 33 %.
VOLUME = {"cache": "warm", "shared_buffers": "128MB", "device": "mbps=40"}
SERVED = {
    "device_reads_per_second": 5000.0, "device_writes_per_second": 0.0,
    "device_read_kb_per_second": 39.0 * 1024, "device_written_kb_per_second": 0.0,
}  # fmt: skip
IDLE = {**SERVED, "device_read_kb_per_second": 30.0 * 1024}
STOLEN = {"cpu_steal_share": 0.2}

DOUBTFUL: list[tuple[str, Evidence, str]] = [
    ("no_space", evidence(server_log=BACKEND + 'PANIC:  could not write "x": No space left on device'), "server says"),
    ("no_space", evidence(result=told("could not extend file: Disk quota exceeded", "aborted")), "client says"),
    ("server_restart", evidence(server_log=CRASH), r"client backend \(PID 77\) was terminated by signal 9"),
    ("server_restart", evidence(started_after=2.5), "restarted"),
    ("server_restart", evidence(server_alive=False), "died"),
    ("client_problems", evidence(result=told("", "error: client 3 aborted")), "client 3 aborted"),
    ("server_log", evidence(server_log=BACKEND + "ERROR:  deadlock detected\n"), "1 error .* deadlock detected"),
    ("server_log", evidence(server_log=f"x\n{BACKEND}FATAL:  a\n{BACKEND}ERROR:  b\n"), "2 errors .* FATAL: a"),
    ("consistency", evidence(violations=("condition 3.3.2.1", "condition 3.3.2.4")), r"3.3.2.1 \(and 1 more\)"),
    (
        "duration",
        evidence(result=WorkloadResult((), 0.07, 900, seconds_asked=30.0, client_cpu_seconds=1.0)),
        "0.07 s of the 30 s",
    ),
    (
        "transactions",
        evidence(result=WorkloadResult((), 30.0, 99, seconds_asked=30.0, client_cpu_seconds=1.0)),
        "only 99",
    ),
    ("clock", evidence(around={"clock_step_seconds": -1.5}), "-1.500 s"),
    ("clock", evidence(around={"clock_step_seconds": 0.12}), r"\+0.120 s"),
    ("steal", evidence({"cpu_steal_share": 0.086}), "8.60 %"),
    ("steal", evidence({"cpu_steal_share": 0.03}, threshold=0.03), "changed the result by 3.1 %"),
    ("steal", evidence({"cpu_steal_share": 1.0}, threshold=0.03), "100.00 %"),
    ("steal", evidence({**STOLEN, **IDLE}, levels=VOLUME, threshold=0.03), "20.00 %.* by 25.0 %"),
    ("steal", evidence({**STOLEN, **SERVED}, threshold=0.03), "by 25.0 %"),  # a device whose limits are unknown
    (
        "steal",
        evidence(
            {**STOLEN, **IDLE, "device_reads_per_second": 590.0}, levels={**VOLUME, "device": "gp2:200"}, threshold=0.03
        ),
        "by 25.0 %",
    ),  # its credits may have provided five times as much
    ("foreign_cpu", evidence(around={"foreign_cpu_share": 0.1}, threshold=0.1), "10.0 %"),
    ("foreign_cpu", evidence(IDLE, levels=VOLUME, around={"foreign_cpu_share": 0.4}, threshold=0.03), "40.0 %"),
    ("foreign_cpu", evidence(around={"foreign_cpu_share": 0.3, "seconds": 0.05}), r"30.0 %"),
    ("foreign_cpu", evidence(around={"foreign_cpu_share": 0.25, "busiest": "cp (pid 7)"}), r"25.0 % .* cp \(pid 7\)"),
    ("foreign_io", evidence(around={"foreign_read_bytes": 200 * MB}), "read 200 MB and wrote 0 B"),
    (
        "foreign_io",
        evidence(IDLE, levels=VOLUME, threshold=0.03, around={"foreign_read_bytes": 200 * MB}),
        "read 200 MB",
    ),
    (
        "foreign_io",
        evidence(around={"foreign_written_bytes": 121 * MB, "busiest_with_storage": "dd (pid 8)"}),
        r"wrote 121 MB .* dd \(pid 8\)",
    ),
    (
        "device_limit",
        evidence(facts={"device_limit_asked": {"reads": 3400}, "device_limit_achieved": {"reads": 5000}}),
        "3400 requested, 5000 achieved",
    ),
    ("device_limit", evidence(facts={"device_limit_asked": {"reads": 3400}}), "unknown"),
    ("knobs", evidence(facts={"knobs_drifted": ["thp: always became never"]}), "always became never"),
    ("memory_limit", evidence(facts=LIMITED, around={"cached_bytes": 800 * MB}), "800 MB .* limit of 512 MB"),
    (
        "memory_limit",
        evidence(facts=LIMITED | {"memory_limit_shared_bytes": 128 * MB}, around={"cached_bytes": 500 * MB}),
        "500 MB .* limit of 512 MB, 128 MB of it taken by shared memory",
    ),
    ("memory_limit", evidence({"block_read_bytes": 9.0 * GB}, facts=LIMITED), "only 0 B were read"),
    ("cache_state", evidence(around={"own_read_bytes": 80 * MB}), "warm, yet 80 MB"),
    (
        "cache_state",
        evidence({"block_read_bytes": 3.0 * GB}, levels=COLD, around={"own_read_bytes": 2 * MB}),
        "cold, yet only 2 MB of 1 GB",
    ),
    (
        "cache_state",
        evidence({"block_read_bytes": 300.0 * MB, "device_read_bytes": 0.0}, levels=COLD, surroundings=None),
        "only 0 B of 300 MB",
    ),
    (
        "cache_state",
        evidence(levels=COLD, facts=RESTARTED | {"cold_device_read_bytes": 50 * MB}, around={"own_read_bytes": GB}),
        "cold, yet only 50 MB of 6 GB",
    ),
    ("cache_state", evidence(levels=COLD, facts=RESTARTED), "cold, yet only 0 B of 6 GB"),
    ("memory_limit", evidence(levels=COLD, facts=LIMITED | RESTARTED), "only 0 B were read"),
    (
        "buffer_misses",
        evidence({"riops": 877.0, "liops": 1_444_751.0}, levels={"cache": "warm", "shared_buffers": "4800MB"}),
        "877 blocks a second were read, 0.061%",
    ),
]

BELIEVED: list[tuple[str, Evidence]] = [
    (
        "one miss in a million",
        evidence({"riops": 1.0, "liops": 1e6}, levels={"cache": "warm", "shared_buffers": "4800MB"}),
    ),
    (
        "misses of what does not fit into the buffers that equal memory leaves",
        evidence({"riops": 877.0, "liops": 1_444_751.0}, settings={"shared_buffers": "900MB"},
                 levels={"cache": "warm", "shared_buffers": "1200MB", "equal": "memory"}),
    ),
    (
        "misses of what does not fit",
        evidence({"riops": 9e4, "liops": 1e6}, levels={"cache": "warm", "shared_buffers": "64MB"}),
    ),
    ("nothing happened", evidence()),
    ("nobody watched", evidence(surroundings=None)),
    ("the clock is slewed as fast as the kernel may", evidence(around={"seconds": 3600.0, "clock_step_seconds": 1.8})),
    ("others take 4.9 %", evidence(around={"foreign_cpu_share": 0.049})),
    ("2.9 % of steal cannot make a difference of 3 %", evidence({"cpu_steal_share": 0.029}, threshold=0.03)),
    ("nor 9 % one of 10 %", evidence({"cpu_steal_share": 0.09}, threshold=0.1)),
    ("9 % of others", evidence(around={"foreign_cpu_share": 0.09}, threshold=0.1)),
    ("steal beside a device at its limit", evidence({**STOLEN, **SERVED}, levels=VOLUME, threshold=0.03)),
    (
        "others' storage beside a device at its limit",
        evidence(SERVED, levels=VOLUME, threshold=0.03, around={"foreign_read_bytes": 200 * MB}),
    ),
    ("others beside it", evidence(SERVED, levels=VOLUME, threshold=0.03, around={"foreign_cpu_share": 0.4})),
    (
        "a limit that was a little less",
        evidence({**STOLEN, **IDLE}, levels=VOLUME, threshold=0.03,
                 facts={**FACTS, "device_limit_asked": {"read_bytes_per_second": 31 * MB},
                        "device_limit_achieved": {"read_bytes_per_second": 30.5 * MB}}),
    ),
    (
        "a gp2 volume without credits has its baseline",
        evidence({**STOLEN, **SERVED, "device_reads_per_second": 590.0}, threshold=0.03,
                 levels={**VOLUME, "device": "gp2:200,credits=0"}),
    ),
    ("a tick of 10 ms in a scan of 50 ms", evidence(around={"foreign_cpu_share": 0.129, "seconds": 0.05})),
    ("the machine's ticks say a little less than ours", evidence(around={"foreign_cpu_share": -0.004})),
    ("3.9 MB/s of others", evidence(around={"foreign_read_bytes": 60 * MB, "foreign_written_bytes": 57 * MB})),
    ("an error is allowed", evidence(server_log=f"{BACKEND}ERROR:  x\n", thresholds=Thresholds(most_log_errors=1))),
    (
        "the limit as achieved",
        evidence(facts={"device_limit_asked": {"reads": 3400}, "device_limit_achieved": {"reads": 3300}}),
    ),
    ("a limited server reads", evidence(facts=LIMITED, around={"cached_bytes": 500 * MB, "own_read_bytes": 9 * GB})),
    ("a warm database that does not fit", evidence(facts={"database_bytes": 10**15}, around={"own_read_bytes": GB})),
    ("direct reads", evidence(around={"own_read_bytes": GB}, settings={"debug_io_direct": "data, wal"})),
    ("small WAL blocks are read first", evidence({"wal_bytes": 100.0 * MB}, around={"own_read_bytes": 150 * MB})),
    ("cold, and read", evidence({"block_read_bytes": 3.0 * GB}, levels=COLD, around={"own_read_bytes": GB})),
    ("restarted cold, and read", evidence(levels=COLD, facts=RESTARTED | {"cold_device_read_bytes": 70 * MB})),
    (
        "a database read often by a server that was restarted twice counts twice",
        evidence(
            levels=COLD,
            facts=RESTARTED | {"restarts": 2, "cold_requested_bytes": 9 * GB, "cold_device_read_bytes": 21 * MB},
        ),
    ),
    ("cold, and nobody counted what was asked for", evidence(levels=COLD, facts=FACTS | {"restarts": 9})),
    ("cold, and nearly nothing asked for", evidence({"block_read_bytes": 8.0 * MB}, levels=COLD)),
]  # fmt: skip


def test_a_plan_knows_the_rules_by_their_names() -> None:
    assert tuple(RULES) == RULE_NAMES
    directory = ROOT / "src/octavo/lab/validity"
    assert {path.stem for path in directory.glob("*.py")} == {
        *RULE_NAMES, "__init__", "evidence", "possible_change", "surroundings", "watch",
    }  # fmt: skip


@pytest.mark.parametrize(("rule", "seen", "reason"), DOUBTFUL)
def test_a_rule_names_what_it_does_not_believe(rule: str, seen: Evidence, reason: str) -> None:
    said = first_doubt(seen)
    assert said is not None and re.search(reason, said.reason), said
    assert said.rule == rule, "an earlier rule spoke"
    assert "\n" not in said.reason


@pytest.mark.parametrize(("rule", "seen", "reason"), [row for row in DOUBTFUL if row[1].server_log])
def test_what_a_rule_looks_for_is_kept_of_a_large_log(tmp_path: Path, rule: str, seen: Evidence, reason: str) -> None:
    quiet = "2025-01-02 03:04:05.678 UTC [77] client backend LOG:  duration: 1.234 ms\n" * 100
    log = tmp_path / "server.log"
    log.write_text(f"{quiet}{seen.server_log.rstrip()}\n{quiet}")
    kept = read_log(log, 5000)
    assert "duration" not in kept
    said = first_doubt(replace(seen, server_log=kept))
    assert said is not None and re.search(reason, said.reason), said
    assert said.rule == rule


@pytest.mark.parametrize(("case", "seen"), BELIEVED, ids=[case for case, _ in BELIEVED])
def test_a_sound_trial_is_believed(case: str, seen: Evidence) -> None:
    assert first_doubt(seen) is None


@pytest.mark.parametrize(("rule", "seen", "reason"), DOUBTFUL)
def test_a_declared_outcome_is_not_censored(rule: str, seen: Evidence, reason: str) -> None:
    left = first_doubt(seen, outcomes=[rule])
    assert left is None or left.rule != rule
    assert first_doubt(seen, outcomes=RULE_NAMES) is None


def test_every_threshold_and_rule_is_explained() -> None:
    page = (ROOT / "docs/validity.md").read_text()
    for name in (*RULE_NAMES, *Thresholds.model_fields):
        assert f"`{name}`" in page, name
    for name, field in Thresholds.model_fields.items():
        (row,) = [line for line in page.splitlines() if line.startswith("|") and f"| `{name}` |" in line]
        assert f"| {field.default} |" in row


def made(pid: int, parent: int, cpu: float, reaped: float = 0.0, start: int = 1, *, kernel: bool = False) -> Process:
    return Process(pid, parent, start, "x", kernel, cpu, reaped)


def cpu(process: Process) -> float:
    return process.all_cpu


def test_an_ended_childs_time_counts_from_the_first_table_on() -> None:
    before = {1: made(1, 0, 5), 2: made(2, 1, 1, reaped=10), 3: made(3, 2, 4), 4: made(4, 3, 2)}
    after = {1: made(1, 0, 6), 2: made(2, 1, 1.5, reaped=20)}  # 3 used 3 more, 4 one more; both were reaped
    assert growth(before, after, cpu) == {1: 1, 2: 4.5}


def test_a_kernel_worker_that_ends_leaves_its_parent_nothing() -> None:
    before = {2: made(2, 0, 1, kernel=True), 9: made(9, 2, 273, kernel=True), 10: made(10, 2, 4, kernel=True)}
    after = {2: made(2, 0, 1, kernel=True), 10: made(10, 2, 5, kernel=True)}
    assert growth(before, after, cpu) == {2: 0, 10: 1}


def test_a_pid_that_has_passed_to_another_is_another() -> None:
    before = {1: made(1, 0, 5), 2: made(2, 1, 7, start=1)}
    after = {1: made(1, 0, 5, reaped=8), 2: made(2, 1, 3, start=9)}
    assert growth(before, after, cpu) == {1: 1, 2: 3}


@given(st.data())
def test_what_is_used_between_two_tables_is_all_accounted_for(data: st.DataObject) -> None:
    """Processes start, work, and end; in every case the growth of the living ones is the work done."""
    living = {1: made(1, 0, 3)}
    pids = itertools.count(2)

    def step(worked: float) -> float:
        pid = data.draw(st.sampled_from(sorted(living)))
        now = living[pid]
        match data.draw(st.sampled_from(("work", "fork", "end"))):
            case "work":
                living[pid] = made(pid, now.parent, now.cpu + 1, now.reaped_cpu)
                return worked + 1
            case "fork":
                child = next(pids)
                living[child] = made(child, pid, 0)
            case _:
                if pid != 1 and pid not in {process.parent for process in living.values()}:
                    heir = living[now.parent]
                    living[heir.pid] = made(heir.pid, heir.parent, heir.cpu, heir.reaped_cpu + now.all_cpu)
                    del living[pid]
        return worked

    for _ in range(data.draw(st.integers(0, 15))):
        step(0)
    before, worked = dict(living), 0.0
    for _ in range(data.draw(st.integers(0, 25))):
        worked = step(worked)
    grown = growth(before, living, cpu)
    assert sum(grown.values()) == worked
    assert all(amount >= 0 for amount in grown.values())


def test_the_table_reads_what_the_kernel_writes(tmp_path: Path) -> None:
    proc = planted.plant(
        tmp_path,
        planted.process(7, 1, "odd) name\n", ticks=3 * TICKS, reaped=TICKS, start=42)
        | planted.storage(7, read=4096, written=10_000, cancelled=1808)
        | planted.process(2, 0, "kthreadd", flags=planted.KERNEL_THREAD)
        | {"notes/x": ""},
    )
    table = read_table(proc, storage=True)
    assert table[7] == Process(7, 1, 42, "odd) name?", False, 3.0, 1.0, 4096, 8192)
    assert table[2].kernel and table[2].read_bytes is None
    assert tree(1, {1: made(1, 0, 0), **table}) == {1, 7}


def test_a_table_is_of_the_processes_that_this_user_may_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid=1 the directories of other users' processes are there and refuse everything."""
    proc = planted.plant(tmp_path, planted.process(7, 1) | planted.process(8, 1))
    read_bytes = Path.read_bytes

    def refuse(self: Path) -> bytes:
        if self.parent.name == "8":
            raise PermissionError(errno.EPERM, "Operation not permitted", str(self))
        return read_bytes(self)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert set(read_table(proc, storage=True)) == {7}


def test_the_watch_tells_ours_from_others_and_from_the_kernels(tmp_path: Path) -> None:
    def state(ours: int, reaped: int, other: int, kernel: int, user: int, read: int, written: int) -> None:
        planted.plant(
            tmp_path,
            planted.process(10, 1, "octavo", ticks=ours, reaped=reaped) | planted.storage(10, read=read)
            | planted.process(2, 0, "kthreadd", ticks=kernel, flags=planted.KERNEL_THREAD) | planted.storage(2)
            | planted.process(1, 0, "init", ticks=5) | planted.storage(1)
            | planted.process(50, 1, "backup", ticks=other) | planted.storage(50, written=written, cancelled=100)
            | planted.machine(user=user, idle=4000 - user, softirq=50),
        )  # fmt: skip

    notices: list[str] = []
    state(ours=100, reaped=50, other=1000, kernel=10, user=1200, read=MB, written=1100)
    watch = Watcher(notices.append, root=10, proc=tmp_path).start(tmp_path)
    state(ours=200, reaped=150, other=1400, kernel=110, user=1900, read=3 * MB, written=9 * MB + 100)
    planted.plant(tmp_path, planted.machine(user=1900, idle=4100, softirq=90))
    seen = watch()
    # 700 ticks of tasks, of them 200 ours and 100 the kernel's, out of 2,040 of the machine.
    assert seen.foreign_cpu_share is not None
    assert round(seen.foreign_cpu_share * (700 + 1300 + 40)) == 400
    assert seen.busiest == "backup (pid 50)" == seen.busiest_with_storage
    assert seen.own_read_bytes == 2 * MB
    assert seen.foreign_written_bytes == 9 * MB - 1000
    assert abs(seen.clock_step_seconds) < 0.05
    assert notices == []


def test_what_cannot_be_seen_is_said_once(tmp_path: Path) -> None:
    planted.plant(tmp_path, planted.process(10, 1, "octavo") | planted.process(5, 1, ticks=5) | planted.machine(user=5))
    notices: list[str] = []
    shares: list[float | None] = []
    watcher = Watcher(notices.append, root=10, proc=tmp_path)
    for _ in range(2):
        watch = watcher.start(tmp_path)
        planted.plant(tmp_path, planted.process(5, 1, ticks=30) | planted.machine(user=30, idle=75))
        seen = watch()
        assert seen.own_read_bytes is None
        shares.append(seen.foreign_cpu_share)
        assert set(seen.blind) == {"foreign_cpu", "foreign_io"}
    assert len(notices) == 2
    assert shares[0] == pytest.approx(25 / 100)  # of a visible process, without kernel threads


@pytest.mark.parametrize(("device", "foreign"), [(15 * MB, 3 * MB), (11 * MB, 0)])
def test_what_the_device_read_beside_us_is_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: int, foreign: int
) -> None:
    """Never less than nothing: ours may also have read from another device."""
    monkeypatch.setattr("octavo.lab.validity.watch._device_read", Mock(side_effect=[10 * MB, device]))

    def state(read: int) -> None:
        ours = planted.process(10, 1, "octavo") | planted.storage(10, read=read)
        planted.plant(
            tmp_path, ours | planted.process(2, 0, "kthreadd", flags=planted.KERNEL_THREAD) | planted.machine()
        )

    state(read=MB)
    watch = Watcher(lambda _: None, root=10, proc=tmp_path).start(tmp_path)
    state(read=3 * MB)
    seen = watch()
    assert (seen.own_read_bytes, seen.foreign_read_bytes) == (2 * MB, foreign)


def test_a_child_that_came_and_went_is_in_its_parents_account() -> None:
    before = settled_table(os.getpid())
    subprocess.run(["python3", "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    after = settled_table(os.getpid())
    assert 0.25 <= growth(before, after, cpu)[os.getpid()] < 3


def test_cached_bytes_are_those_in_memory(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    try:
        assert cached_bytes(directory) == 0
        (directory / "file").write_bytes(b"x" * 3 * MB)
        (directory / "link").symlink_to("/nowhere")
        assert cached_bytes(directory) == 3 * MB
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # before Linux 6.5, in some containers
            raise
        pytest.skip(str(error))


def test_looking_costs_a_trial_little(tmp_path: Path) -> None:
    watcher = Watcher(lambda _: None)
    watcher.start(tmp_path)
    before = time.process_time()
    watcher.start(tmp_path)()
    processes = len(read_table())
    assert time.process_time() - before < 0.05 + 0.002 * processes
