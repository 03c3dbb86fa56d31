"""The state of a host where Octavo may change it; of objects that others also make, only those that may be ours.

Processes, mounts, loop devices, control groups, sockets and files are identified as ours by a token or a path. Shared
memory is in namespaces of ours (`apart`). Kernel settings and swap are global: a value that is in no journal of ours is
attributed to others, and so is every change made while nothing of ours runs.
"""

import ctypes
import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from octavo.host.mounts import mounts
from octavo.knobs.zram_swap import swaps

_VALUES = (
    "sys/vm/swappiness", "sys/vm/overcommit_memory", "sys/vm/overcommit_ratio", "sys/vm/overcommit_kbytes",
    "sys/vm/dirty_ratio", "sys/vm/dirty_bytes", "sys/vm/dirty_background_ratio", "sys/vm/dirty_background_bytes",
    "sys/vm/dirty_expire_centisecs", "sys/vm/dirty_writeback_centisecs",
    "sys/vm/min_free_kbytes", "sys/vm/watermark_scale_factor", "sys/vm/nr_hugepages", "sys/vm/nr_overcommit_hugepages",
    "sys/vm/compaction_proactiveness", "sys/kernel/numa_balancing", "sys/kernel/sched_autogroup_enabled",
    "sys/kernel/perf_event_paranoid",
)  # fmt: skip
_SYSFS = (
    "kernel/mm/transparent_hugepage/*", "kernel/mm/transparent_hugepage/khugepaged/*",
    "kernel/mm/hugepages/*/nr_hugepages", "kernel/mm/hugepages/*/nr_overcommit_hugepages",
    "devices/system/node/node*/hugepages/*/nr_hugepages",
    "devices/system/cpu/cpufreq/policy*/scaling_governor",
    "block/*/queue/scheduler", "block/*/queue/read_ahead_kb", "block/*/queue/max_sectors_kb",
    "block/*/queue/nr_requests",
    "fs/cgroup/blkio/blkio.throttle.*_device", "fs/cgroup/cgroup.subtree_control", "kernel/tracing/instances/octavo*",
)  # fmt: skip
# Counters of khugepaged's work.
_NO_SETTINGS = frozenset({"pages_collapsed", "full_scans"})
_PUBLIC = ("/tmp", "/var/tmp", "/run", "/run/octavo", "/dev/shm")  # noqa: S108
_GROUPS = ("", "memory", "unified", "freezer", "blkio", "cpuset")
_NEW_MOUNTS, _NEW_IPC = 0x00020000, 0x08000000  # CLONE_NEWNS, CLONE_NEWIPC (unshare(2))
# Names of things that others also change begin with one of these.
_EVERYBODYS = ("/", "swap ", "device ")
_ANY = "any"
# The longest wait until changes by others are undone.
_OTHERS_SECONDS = 300.0
_BETWEEN_LOOKS_SECONDS = 1.0


@dataclass
class Ours:
    """What is known to belong to this campaign: its directory, and the tokens of the commands that it started.

    The directory contains a temporary one (TMPDIR), for files outside of every state directory.
    """

    place: Path
    tokens: set[str] = field(default_factory=set[str])
    everybodys: dict[str, str] = field(default_factory=dict[str, str])
    """The kernel's settings and swap, as they were when something of this campaign had last ended."""
    wrote: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Every text that a journal had for a kernel setting, by its path; what has no text may be any."""
    deadline: float = float("inf")
    """On the monotonic clock: no kill begins later."""

    @property
    def temporary(self) -> Path:
        """The value of TMPDIR for the commands."""
        return self.place / "tmp"

    def learn(self, home: Path) -> None:
        """Records the tokens of the existing journals, and the kernel settings that these name."""
        for path in (home / "journal").glob("*.jsonl"):
            self.tokens.add(path.stem)
            with suppress(OSError):
                for line in path.read_text(errors="replace").splitlines():
                    with suppress(ValueError):  # the last line may be incomplete
                        self._note(json.loads(line))

    def _note(self, entry: dict[str, Any]) -> None:
        device = str(entry.get("device") or "")
        if device.startswith("zram"):
            self.wrote |= {f"swap /dev/{device}": {_ANY}, f"device {device}": {_ANY}}
        if entry.get("kind") == "counterparts":
            texts: list[tuple[Any, Any]] = list(zip((entry["ratio"], entry["amount"]), entry["set"], strict=True))
        else:
            texts = [(entry.get("path"), entry.get("set") if not device else _ANY)]
        texts += [(one["path"], _ANY) for one in entry.get("moves") or ()]
        for path, text in texts:
            self.wrote.setdefault(str(path), set()).add(text if isinstance(text, str) else _ANY)

    def is_others(self, name: str, value: str) -> bool:
        """Whether `name` is a setting, or swap, with a value that no command of ours has set."""
        wrote = self.wrote.get(name, set())
        return name.startswith(_EVERYBODYS) and _ANY not in wrote and _in_force(value) not in wrote


def apart() -> None:
    """Gives this process its own mounts and shared memory, without volumes mounted by others: a copy of these mounts
    would keep their loop devices busy. In a container that does not permit this, what others leave there counts as
    ours."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS | _NEW_IPC) != 0:
        return
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for mount in mounts():
        if "volumes" in mount.target.parts:
            subprocess.run(["umount", "--lazy", mount.target], check=False)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "octavo", "/dev/shm"], check=True)  # noqa: S108


def attach_once(image: Path) -> None:
    """Attaches an image to every free loop device, and detaches it again.

    The kernel chooses a device's readahead when the device gets its first image, and keeps it: that is not a change by
    anyone.
    """
    with image.open("wb") as file:
        file.truncate(1024**2)
    for device in sorted(Path("/sys/block").glob("loop*")):
        name = f"/dev/{device.name}"
        if not (device / "loop").exists():  # a device that others attach meanwhile is refused
            attached = subprocess.run(["losetup", "--direct-io=on", name, image], check=False, capture_output=True)
            if attached.returncode == 0:
                subprocess.run(["losetup", "--detach", name], check=True)
    image.unlink()


def take(ours: Ours) -> dict[str, str]:
    """The whole state as text, by name. What is equal before and after was restored."""
    found = _everybodys()
    found |= {f"mount {mount.target}": mount.source for mount in mounts() if mount.target.is_relative_to(ours.place)}
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if (file := path.read_text(errors="replace").strip()).startswith(str(ours.place)):
                found[f"loop device {path.parts[-3]}"] = file
    found |= {f"process {pid}": command for pid, command in _processes(ours)}
    found |= dict.fromkeys((*_control_groups(ours), *_sockets(ours), *_files(ours), *_shared_memory()), "")
    return found


def _in_force(text: str) -> str:
    """The choice of a setting that is in brackets, which is the active one."""
    return text.partition("[")[2].partition("]")[0] or text


def before_a_command(ours: Ours, before: dict[str, str]) -> None:
    """Copies into `before` what others have changed since the last process of ours ended."""
    now = _everybodys()
    for name in ours.everybodys.keys() | now.keys() if ours.everybodys else ():
        if name not in now:
            before.pop(name, None)
        elif ours.everybodys.get(name) != now[name]:
            before[name] = now[name]
    ours.everybodys = now


def left_for_good(ours: Ours, before: dict[str, str]) -> list[str]:
    """The differences that remain after everything of ours has ended; waits for changes by others to be undone."""
    ours.everybodys = _everybodys()
    deadline = time.monotonic() + _OTHERS_SECONDS
    while True:
        found = difference(ours, before, take(ours))
        if time.monotonic() > deadline or not any(line.startswith(_EVERYBODYS) for line in found):
            return found
        time.sleep(_BETWEEN_LOOKS_SECONDS)
        before_a_command(ours, before)


def difference(ours: Ours, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A line for every difference that others did not cause."""
    return [
        f"{name}: {before.get(name, 'not there')!r} became {after.get(name, 'not there')!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and not ours.is_others(name, after.get(name, ""))
    ]


def _everybodys() -> dict[str, str]:
    """The kernel's settings and swap."""
    found = dict(_values())
    found |= {f"swap {name}": str(size) for name, size in swaps().items()}
    return found | {f"device {path.name}": "" for path in Path("/sys/block").glob("zram*")}


def _values() -> Iterator[tuple[str, str]]:
    files = [Path("/proc", name) for name in _VALUES]
    files += [path for pattern in _SYSFS for path in Path("/sys").glob(pattern) if path.name not in _NO_SETTINGS]
    for path in files:
        with suppress(OSError):  # a directory, or a value that this kernel does not show
            yield str(path), path.read_text(errors="replace").strip()


def _processes(ours: Ours) -> Iterator[tuple[int, str]]:
    """Processes with one of our tokens, or with a working directory in ours, except ourselves."""
    place, marks = os.fsencode(ours.place), [f"OCTAVO_TOKEN={token}".encode() for token in ours.tokens]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) in (os.getpid(), os.getppid()):
            continue
        with suppress(OSError):
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
            at = os.fsencode((entry / "cwd").readlink())
            if any(mark in environment for mark in marks) or at.startswith(place) or place in command.split(b"\0")[0]:
                yield int(entry.name), command.replace(b"\0", b" ").decode(errors="replace")[:200]


def _control_groups(ours: Ours) -> Iterator[str]:
    for root in (Path("/sys/fs/cgroup", name) for name in _GROUPS):
        for path in root.glob("octavo-*"):
            if any(token[:8] in path.name for token in ours.tokens):
                yield f"control group {path}"


def _sockets(ours: Ours) -> Iterator[str]:
    for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]:
        name = line.rpartition(" ")[2]
        if name.startswith(str(ours.place)) or any(f"/{token[:8]}-" in name for token in ours.tokens):
            yield f"socket {name}"


def _files(ours: Ours) -> Iterator[str]:
    """Files of ours outside of the state directory, and those inside it that must not remain."""
    for directory in map(Path, _PUBLIC):
        for path in directory.glob("*"):
            if any(token[:8] in path.name for token in ours.tokens):
                yield f"file {path}"
    yield from (f"file {path}" for path in ours.temporary.glob("*"))
    for home in (ours.place, *ours.place.glob("*/")):
        for name in ("scratch", "volumes", "journal", "work"):
            yield from (f"file {path}" for path in (home / name).glob("*"))


def _shared_memory() -> Iterable[str]:
    """PostgreSQL's shared memory: System V segments that nobody uses any more, and POSIX ones without a server."""
    for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[6] == "0":
            yield f"shared memory {fields[1]} of user {fields[7]}"
    used = _mapped()
    yield from (f"file {path}" for path in Path("/dev/shm").glob("PostgreSQL.*") if path.name not in used)  # noqa: S108


def _mapped() -> set[str]:
    """The POSIX shared memory of running PostgreSQL servers."""
    found: set[str] = set()
    for entry in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            text = entry.read_text(errors="replace")
            found |= {word.rpartition("/")[2] for word in text.split() if word.startswith("/dev/shm/PostgreSQL.")}  # noqa: S108
    return found
