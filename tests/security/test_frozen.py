"""Stopped children in a control group of either version: ended, and never left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from octavo.host import child_group, children
from octavo.host.cgroup import ROOT
from octavo.host.children import server_account
from octavo.host.journal import Journal, recover
from octavo.host.process import identify, is_alive
from octavo.lab.slices.freeze import ClientFreezer, GroupFreezer

_PLACES = {1: ROOT / "freezer", 2: ROOT / "unified" if (ROOT / "unified").is_dir() else ROOT}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(params=[1, 2])
def place(request: pytest.FixtureRequest) -> Path:
    """The directory for groups of this version."""
    path = _PLACES[request.param]
    proof = "cgroup.procs" if request.param == 1 else "cgroup.controllers"
    if not (path / proof).exists() or not os.access(path, os.W_OK):
        pytest.skip(f"no control groups of version {request.param} may be made here")
    return path


@pytest.fixture
def journal(home: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    monkeypatch.setattr(child_group, "hierarchy", lambda: place)
    with Journal() as opened:
        yield opened


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def used(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_children_of_a_cell_stand_still_together_and_are_ended(journal: Journal) -> None:
    group = child_group.together(journal)
    assert group is not None
    account = server_account()
    # Each prints that it is running, and is then never idle.
    script = "echo; while :; do :; done"
    started = [children.start(["sh", "-c", script], journal, role="t", account=account, below=group) for _ in range(2)]
    for child, _ in started:
        assert child.stdout is not None
        child.stdout.readline()
    freezer = GroupFreezer(group)
    freezer.freeze()
    before = [used(child.pid) for child, _ in started]
    assert child_group.is_frozen(group)
    assert [used(child.pid) for child, _ in started] == before
    freezer.thaw()
    assert not child_group.is_frozen(group)
    freezer.freeze()
    child_group.remove(group)
    assert [child.wait(60) for child, _ in started] == [-signal.SIGKILL] * 2
    for _, number in started:
        children.ended(journal, number)
    assert not group.exists()


def test_a_killed_owner_leaves_nothing_that_stands_still(home: Path, place: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from octavo.host import child_group, children\n"
        "from octavo.host.journal import Journal\n"
        "from octavo.lab.slices.freeze import GroupFreezer\n"
        "child_group.hierarchy = lambda: Path(sys.argv[1])\n"
        "journal = Journal()\n"
        "group = child_group.together(journal)\n"
        "child, _ = children.start(['sleep', '600'], journal, role='test', account=children.server_account(),\n"
        "    below=group)\n"
        "GroupFreezer(group).freeze()\n"
        "print(child.pid, group, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    victim = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, text=True, check=False)
    pid, group = victim.stdout.split()
    survivor = identify(int(pid))
    assert survivor is not None
    assert Path(group).exists()
    recover()
    assert not is_alive(survivor)
    assert not Path(group).exists()


def test_a_client_that_was_stopped_by_a_signal_is_ended_by_its_owners_successor(home: Path) -> None:
    with Journal() as journal:
        child, number = children.start(["sleep", "600"], journal, role="test")
        freezer = ClientFreezer(child.pid)
        freezer.freeze()
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert state_of(child.pid) == "T"
        reaper = Thread(target=child.wait)  # as init would, whose child it becomes when its parent has ended
        reaper.start()
        journal.undo(number)
        reaper.join(60)
        assert child.returncode == -signal.SIGTERM
