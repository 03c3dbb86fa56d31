"""`octavo host`, and `octavo host restore` after a kill -9: what it restores, and what it leaves to others."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Octavo

from octavo.host import loop_volume, mounts

_DEFRAG = Path("/sys/kernel/mm/transparent_hugepage/defrag")
_SLEEP = Path("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs")

# Changes two values and makes a volume, then is killed.
_VICTIM = """
import os, signal
from octavo import knobs
from octavo.host.journal import Journal
from octavo.knobs import device
from octavo.knobs.base import KnobTarget
journal = Journal()
volume = device.volume({"device": "loop"}, 1024**2, journal)
made = volume.__enter__()
applied = knobs.applied({"thp_defrag": "defer", "khugepaged": "4096/11s"}, journal, KnobTarget(made.directory))
applied.__enter__()
print(made.directory, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

as_root = pytest.mark.skipif(
    os.geteuid() != 0 or not _DEFRAG.exists() or loop_volume.cannot_make("ext4") is not None,
    reason="needs root, transparent huge pages and loop devices",
)


@pytest.fixture
def values() -> Iterator[tuple[str, str]]:
    """The two original values; restored whatever happens."""
    before = _SLEEP.read_text(), _DEFRAG.read_text().partition("[")[2].partition("]")[0]
    yield before
    _SLEEP.write_text(before[0])
    _DEFRAG.write_text(before[1])


def killed() -> Path:
    """The directory of the volume that a killed command has left behind."""
    finished = subprocess.run([sys.executable, "-c", _VICTIM], stdout=subprocess.PIPE, text=True, check=False)
    assert finished.returncode == -signal.SIGKILL
    return Path(finished.stdout.strip())


@pytest.mark.alone
@as_root
def test_what_was_killed_is_put_back_and_told(octavo: Octavo, home: Path, values: tuple[str, str]) -> None:
    directory = killed()
    assert mounts.at(directory) is not None
    assert "[defer]" in _DEFRAG.read_text()
    _SLEEP.write_text("12000")  # another program has changed it since
    done = octavo("host", "restore")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert f"restored {_DEFRAG} to {values[1]!r}" in lines
    assert any(line.startswith(f"left {_SLEEP} at '12000'") for line in lines)
    assert f"unmounted {directory}" in lines
    assert any(line.startswith("detached loop") for line in lines)
    assert f"[{values[1]}]" in _DEFRAG.read_text()
    assert _SLEEP.read_text().strip() == "12000"
    assert mounts.below(home) == []
    assert not list((home / "volumes").iterdir())
    assert octavo("host", "restore").stdout == "nothing to restore\n"


@pytest.mark.alone
@as_root
def test_any_command_puts_back_first(octavo: Octavo, home: Path, values: tuple[str, str]) -> None:
    directory = killed()
    listed = octavo("runs", "--format", "json")
    assert listed.returncode == 0
    assert f"octavo: unmounted {directory}" in listed.stderr.splitlines()
    assert f"[{values[1]}]" in _DEFRAG.read_text()
    assert mounts.below(home) == []


@pytest.mark.alone
@as_root
def test_what_cannot_be_put_back_yet_is_said_and_tried_again(
    octavo: Octavo, home: Path, values: tuple[str, str]
) -> None:
    del values
    directory = killed()
    somebody = subprocess.Popen(["cat"], cwd=directory, stdin=subprocess.PIPE)
    try:
        done = octavo("host", "restore", "--format", "json")
        assert done.returncode == 1
        outcomes = {one["outcome"] for one in json.loads(done.stdout)["restored"]}
        assert outcomes == {"put back", "failed"}
    finally:
        somebody.communicate()
    assert octavo("host", "restore").returncode == 0
    assert mounts.below(home) == []
    assert not list((home / "journal").iterdir())


@pytest.mark.beside
def test_the_host_has_neighbours_and_devices(octavo: Octavo) -> None:
    facts = json.loads(octavo("host", "--format", "json").stdout)
    assert {"page_stack", "neighbours", "devices"} <= set(facts)
    layers = {layer["layer"] for layer in facts["page_stack"]} | {"shared_buffers"}
    assert all(set(one["layers"]) <= layers for one in facts["neighbours"])
    assert all(one["size_bytes"] > 0 for one in facts["devices"])


@pytest.mark.beside
@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_the_host_fits_the_terminal(octavo: Octavo, columns: str) -> None:
    shown = octavo("host", COLUMNS=columns)
    assert shown.returncode == 0
    assert "How they interact" in shown.stdout
    below = shown.stdout.split("The page stack", 1)[1]
    assert max(len(line) for line in below.splitlines()) <= int(columns)
