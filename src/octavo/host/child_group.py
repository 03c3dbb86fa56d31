"""A control group for each child and all that it starts, killed as a whole at the end.

A process that clears its environment, forks away or starts a session of its own stays in its group: only root can move
it out (cgroups(7)). Version 2 wherever it is mounted, with or without controllers, else version 1's freezer.
"""

import contextlib
import os
import re
import secrets
import signal
import time
from pathlib import Path

from octavo.host.cgroup import ROOT
from octavo.host.journal import Journal
from octavo.host.undo import Entry, Undone

_KILL_SECONDS = 10.0
_FREEZES_SINCE = (5, 2)  # cgroup.freeze


def hierarchy(root: Path = ROOT) -> Path | None:
    """The directory below which we may make groups for children, None where this host offers none."""
    for place, proof in (
        (root, "cgroup.controllers"),
        (root / "unified", "cgroup.controllers"),
        (root / "freezer", ""),
    ):
        if (place / (proof or "cgroup.procs")).exists() and os.access(place, os.W_OK):
            return place
    return None


def of(journal: Journal) -> Path | None:
    """The group of all of a command's children, made at the first call; None where there can be none."""
    if journal.children is None and (place := hierarchy()) is not None:
        path = place / f"octavo-children-{journal.token}"
        journal.record("children", path=str(path))
        path.mkdir()
        journal.children = path
    return journal.children


def together(journal: Journal) -> Path | None:
    """A new group for several children that are paused and continued together; None if that is not possible.

    The caller removes it (`remove`); leftovers of a killed command are removed with `of`.
    """
    parent = of(journal)
    if parent is None:
        return None
    path = parent / f"together-{secrets.token_hex(4)}"
    path.mkdir()
    return path


def undo(entry: Entry) -> Undone | None:
    """Kills the remaining processes in the group and in those below it, and removes the groups."""
    path = Path(entry["path"])
    if not path.exists():
        return None
    left = any(_processes(Path(directory)) for directory, _, _ in os.walk(path))
    if not remove(path):
        return Undone("failed", f"could not end the processes in {path}; octavo host restore tries again")
    return Undone("put back", f"ended the processes in {path}") if left else None


def is_version_2(group: Path) -> bool:
    """Whether a group, which is there, is one of version 2."""
    return (group / "cgroup.controllers").exists()


def remove(group: Path) -> bool:
    """Kills every process in the group and in those below it, and removes them. Returns whether all are gone."""
    deadline = time.monotonic() + _KILL_SECONDS
    while group.exists():
        _kill(group)
        for directory, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()
        if not group.exists():
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _kill(group: Path) -> None:
    """SIGKILL to all at once (cgroup.kill, since Linux 5.14), else to each while none of them can fork."""
    with contextlib.suppress(OSError):
        if (group / "cgroup.kill").exists():
            (group / "cgroup.kill").write_text("1")
            return
    for directory, _, _ in os.walk(group):
        place = Path(directory)
        set_frozen(place, frozen=True)
        try:
            for pid in _processes(place):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        finally:
            set_frozen(place, frozen=False)


def thaw(group: Path) -> None:
    """Continues everything in the group and in those below it, because a frozen process handles no signal but
    SIGKILL."""
    for directory, _, _ in os.walk(group):
        set_frozen(Path(directory), frozen=False)


def can_freeze(group: Path) -> bool:
    """Whether the kernel can stop this group as a whole."""
    return any((group / name).exists() for name in ("cgroup.freeze", "freezer.state"))


def groups_can_freeze(root: Path = ROOT, release: str | None = None) -> bool:
    """Whether the groups that we make for children can be frozen: those of version 1's freezer, and of version 2 since
    Linux 5.2. Any group but the root shows whether the kernel supports it."""
    place = hierarchy(root)
    if place is None:
        return False
    if not is_version_2(place) or any(place.glob("*/cgroup.freeze")):
        return True
    found = re.match(r"(\d{1,4})\.(\d{1,4})", release or os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= _FREEZES_SINCE


def set_frozen(group: Path, *, frozen: bool) -> None:
    """Asks for the group's processes, and those of the groups below it, to be stopped or to go on.

    Sources: cgroup-v2.rst, cgroup.freeze; freezer-subsystem.rst. Stopping takes a moment: see `is_frozen`.
    """
    with contextlib.suppress(OSError):
        if is_version_2(group):
            (group / "cgroup.freeze").write_text("1" if frozen else "0")
        elif (group / "freezer.state").exists():
            (group / "freezer.state").write_text("FROZEN" if frozen else "THAWED")


def is_frozen(group: Path) -> bool:
    """Whether every process in the group is frozen by now; one that waits for the device is not yet."""
    try:
        if is_version_2(group):
            return "frozen 1" in (group / "cgroup.events").read_text().splitlines()
        return (group / "freezer.state").read_text().strip() == "FROZEN"
    except OSError:
        return False


def threads(group: Path) -> list[int]:
    """The threads in the group and in those below it, without those that this process cannot see."""
    name = "cgroup.threads" if is_version_2(group) else "tasks"
    found: list[int] = []
    for directory, _, _ in os.walk(group):
        with contextlib.suppress(OSError):
            found += [int(line) for line in (Path(directory) / name).read_bytes().split() if line != b"0"]
    return found


def _processes(group: Path) -> list[int]:
    """The pids in the group, without those that this process cannot see (0, in another PID namespace)."""
    try:
        return [int(line) for line in (group / "cgroup.procs").read_bytes().split() if line != b"0"]
    except OSError:
        return []
