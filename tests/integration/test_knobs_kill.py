"""kill -9 at random moments of a process that changes knobs: the host is then as it was before."""

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.thorough import times

from octavo.host import cgroup, loop_volume
from octavo.host.journal import TOKEN_VARIABLE, restore
from octavo.host.mounts import mounts
from octavo.host.process import find_by_environment
from octavo.host.undo import Undone
from octavo.knobs.zram_swap import swaps

_KILLS = times(50, 15)
# A moment is drawn as a number of lines in the victim's journal, which writes some fifty while it applies and restores
# one set, plus a time after them. So kills hit at any speed of the machine.
_MOST_LINES = 90
_LONGEST_SECONDS_AFTER = 0.05
_PATIENCE_SECONDS = 60.0
_VALUES = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
    "/proc/sys/vm/nr_hugepages",
    "/proc/sys/vm/min_free_kbytes",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/overcommit_ratio",
    "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_bytes",
    "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/dirty_background_bytes",
)

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        os.geteuid() != 0 or loop_volume.cannot_make("xfs") is not None,
        reason=f"knobs need root and loop devices with XFS: {loop_volume.cannot_make('xfs') or 'no root'}",
    ),
]


def queues() -> list[Path]:
    """The files of the queues of all loop devices; a device is added if a new one is needed while all others are in
    use."""
    names = ("read_ahead_kb", "max_sectors_kb", "scheduler", "nr_requests")
    return [file for name in names for file in Path("/sys/block").glob(f"loop*/queue/{name}")]


def host_state(home: Path, queues: list[Path]) -> dict[str, object]:
    """The state that knobs change: values, these queues, limits, devices, mounts and files below our home."""
    throttles = Path("/sys/fs/cgroup/blkio").glob("blkio.throttle.*_device")
    return {
        "values": {path: Path(path).read_text() for path in _VALUES if Path(path).exists()},
        "queues": {str(file): file.read_text() for file in queues},
        "throttles": {file.name: file.read_text() for file in throttles},
        "swaps": sorted(swaps()),
        "zram": sorted(path.name for path in Path("/sys/block").glob("zram*")),
        "mounts": [mount for mount in mounts() if mount.target.is_relative_to(home)],
        "loops": [file for file in backing_files() if file.startswith(str(home))],
        "files": sorted(str(path) for path in (home / "volumes").rglob("*")),
        "journals": sorted(str(path) for path in (home / "journal").glob("*")),
    }


def backing_files() -> list[str]:
    found: list[str] = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # another process's, detached just now
            found.append(path.read_text().strip())
    return found


def killed(moment: random.Random, seed: int, home: Path) -> str:
    """Starts a victim, kills it at a random moment, and returns its token."""
    lines, seconds = moment.randint(1, _MOST_LINES), moment.uniform(0.0, _LONGEST_SECONDS_AFTER)
    victim = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("knob_victim.py"), str(seed)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OCTAVO_HOME": str(home)},
    )  # fmt: skip
    assert victim.stdout is not None and victim.stderr is not None
    assert victim.stdout.readline() == "begun\n", victim.stderr.read()
    (journal,) = (home / "journal").glob("*.jsonl")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while journal.read_bytes().count(b"\n") < lines and victim.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)
    victim.kill()
    victim.wait()
    with victim.stdout, victim.stderr:
        assert victim.returncode == -9, victim.stderr.read()
    return journal.stem


def groups_of(token: str) -> list[Path]:
    return [path for root in (cgroup.ROOT / "memory", cgroup.ROOT) for path in root.glob(f"octavo-{token[:8]}-*")]


def test_the_host_is_as_it_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("OCTAVO_HOME", str(home))
    (home / "volumes").mkdir(parents=True)
    (home / "journal").mkdir()
    found = queues()
    before = host_state(home, found)
    moment = random.Random(12)
    kinds: set[str] = set()
    put_back: list[Undone] = []
    for number in range(_KILLS):
        token = killed(moment, number, home)
        left = host_state(home, found)
        kinds |= {json.loads(line)["kind"] for line in (home / "journal" / f"{token}.jsonl").read_text().splitlines()}
        told = restore()
        assert {one.what for one in told} <= {"put back"}, (number, told)
        assert host_state(home, found) == before, (number, left, told)
        assert groups_of(token) == []
        assert find_by_environment(TOKEN_VARIABLE, token) == []
        put_back += told
    assert len(put_back) > 2 * _KILLS
    assert kinds >= {"value", "counterparts", "directory", "loop", "mount", "zram", "swap", "process", "cgroup"}
