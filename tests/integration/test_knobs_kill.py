"""kill -9 at fifty random moments of a process that turns knobs: the host is then as it was found."""

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from octavo.host import cgroup, loop_volume
from octavo.host.journal import TOKEN_VARIABLE, restore
from octavo.host.mounts import mounts
from octavo.host.process import find_by_environment
from octavo.host.undo import Undone
from octavo.knobs.zram_swap import swaps

_KILLS = 50
_LONGEST_SECONDS = 1.5
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

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or loop_volume.cannot_make("xfs") is not None,
    reason=f"knobs need root and loop devices with XFS: {loop_volume.cannot_make('xfs') or 'no root'}",
)


def host_state(home: Path) -> dict[str, object]:
    """What knobs change: values, queues, limits, devices, mounts and files below our home."""
    queues = [
        file
        for name in ("read_ahead_kb", "max_sectors_kb", "scheduler", "nr_requests")
        for file in Path("/sys/block").glob(f"loop*/queue/{name}")
    ]
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
    return [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]


def killed_after(seconds: float, seed: int, home: Path) -> str:
    """Lets a victim begin, kills it then, and returns its token."""
    victim = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("knob_victim.py"), str(seed)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OCTAVO_HOME": str(home)},
    )  # fmt: skip
    assert victim.stdout is not None and victim.stderr is not None
    assert victim.stdout.readline() == "begun\n", victim.stderr.read()
    killer = threading.Timer(seconds, victim.kill)
    killer.start()
    victim.wait()
    killer.cancel()
    killer.join()
    with victim.stdout, victim.stderr:
        assert victim.returncode == -9, victim.stderr.read()
    (journal,) = (home / "journal").glob("*.jsonl")
    return journal.stem


def groups_of(token: str) -> list[Path]:
    return [path for root in (cgroup.ROOT / "memory", cgroup.ROOT) for path in root.glob(f"octavo-{token[:8]}-*")]


def test_the_host_is_as_it_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("OCTAVO_HOME", str(home))
    (home / "volumes").mkdir(parents=True)
    (home / "journal").mkdir()
    before = host_state(home)
    moment = random.Random(12)
    kinds: set[str] = set()
    put_back: list[Undone] = []
    for number in range(_KILLS):
        token = killed_after(moment.uniform(0.0, _LONGEST_SECONDS), number, home)
        left = host_state(home)
        kinds |= {json.loads(line)["kind"] for line in (home / "journal" / f"{token}.jsonl").read_text().splitlines()}
        told = restore()
        assert {one.what for one in told} <= {"put back"}, (number, told)
        assert host_state(home) == before, (number, left, told)
        assert groups_of(token) == []
        assert find_by_environment(TOKEN_VARIABLE, token) == []
        put_back += told
    assert len(put_back) > 2 * _KILLS
    assert kinds >= {"value", "counterparts", "directory", "loop", "mount", "zram", "swap", "process", "cgroup"}
