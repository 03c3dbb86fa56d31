"""External faults during a run: a disk that fills up, a server that the OOM killer kills."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import memory_groups_of_runs
from tests.e2e.conftest import ROOT, Octavo

from octavo.host import cgroup
from octavo.postgres.builds.worker_client import COMPILER_CACHE

pytestmark = pytest.mark.measures

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
_SHARED = ("builds", "sources", COMPILER_CACHE)


@pytest.fixture
def small_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory on a separate filesystem of 1 GB."""
    place = Path(tempfile.mkdtemp(prefix="octavo-test-", dir="/var/tmp"))
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,mode=755", "octavo-test", place], check=True)
        try:
            for name in _SHARED:
                (place / name).symlink_to((home / name).resolve())
            monkeypatch.setenv("OCTAVO_HOME", str(place))
            yield place
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)
    finally:
        place.rmdir()


def fill_up(ballast: Path) -> None:
    """Takes all free space, including space that was freed since."""
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1024**2)):
            pass


def trials_of_last_run(octavo: Octavo) -> list[dict[str, Any]]:
    return json.loads(octavo("report", "last", "--format", "json").stdout)["trials"]


@needs_root
def test_a_disk_that_fills_up_stops_the_run_and_costs_no_finished_trial(
    octavo: Octavo, small_home: Path, plan_file: Path
) -> None:
    run = subprocess.Popen(
        [ROOT / "octavo", "run", plan_file, "--seed", "3"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert run.stderr is not None
    finished = 0
    ballast = small_home / "ballast"
    lines: list[str] = []
    for line in run.stderr:
        lines.append(line)
        finished += line.startswith("round ") and ": tps" in line
        if finished >= 2:
            fill_up(ballast)
    assert run.wait() == 3, "".join(lines)
    assert "--resume" in lines[-1]
    assert "free" in lines[-1] or "space" in lines[-1]
    assert "Traceback" not in "".join(lines)
    ballast.unlink()
    stored = trials_of_last_run(octavo)
    assert [trial["reason"] for trial in stored if trial["status"] == "failed"] == []
    before = [trial["id"] for trial in stored if trial["status"] == "ok"]
    assert len(before) >= 2
    resumed = octavo("run", "--resume", "last")
    # A trial that others disturbed is invalid, and does not show the effect of a full disk.
    assert resumed.returncode in (0, 4), resumed.stderr
    trials = trials_of_last_run(octavo)
    assert sum(trial["status"] in ("ok", "invalid") for trial in trials) >= 6
    assert before == [trial["id"] for trial in trials if trial["status"] == "ok"][: len(before)]
    assert not list((small_home / "scratch").glob("*"))


@needs_root
@pytest.mark.skipif(cgroup.memory_controller() is None, reason="no memory controller")
def test_a_server_that_the_oom_killer_takes_fails_its_trial_alone(
    octavo: Octavo, home: Path, plan_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty.sql").write_text("CREATE TABLE nothing (a int);\n")
    (tmp_path / "small.sql").write_text("SELECT length(repeat('x', 1000));\n")
    (tmp_path / "large.sql").write_text("SELECT length(repeat('x', 900000000));\n")
    text = plan_file.read_text()
    for old, new in (
        ('"pgbench"', '"custom"'),
        ('data_block = "8kB"', 'script = "small.sql"'),
        ('data_block = ["4kB", "8kB"]', 'script = ["small.sql", "large.sql"]\n        archive = "empty.sql"'),
        ('mode = "read-write"', 'memory = "256MB"'),
        ("scale = 1", ""),
        ("rounds = 2", "rounds = 1"),
    ):
        assert old in text
        text = text.replace(old, new)
    plan_file.write_text(text)
    finished = octavo("run", plan_file)
    assert "Traceback" not in finished.stderr
    assert finished.returncode in (0, 4), finished.stderr
    trials = trials_of_last_run(octavo)
    by_script = {
        name: [t for t in trials if t["levels"]["script"].endswith(name)] for name in ("small.sql", "large.sql")
    }
    assert {trial["status"] for trial in by_script["small.sql"]} == {"ok"}
    assert {trial["status"] for trial in by_script["large.sql"]} <= {"failed", "invalid"}
    assert all(trial["reason"] for trial in by_script["large.sql"])
    assert not memory_groups_of_runs(home)
    assert not list((home / "scratch").glob("*"))
