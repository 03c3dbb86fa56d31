"""What a host looks like where Octavo may change it; of things that others make too, only those that can be ours."""

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from octavo.host.mounts import mounts
from octavo.knobs.zram_swap import swaps

_VALUES = (
    "sys/vm/swappiness", "sys/vm/overcommit_memory", "sys/vm/overcommit_ratio", "sys/vm/overcommit_kbytes",
    "sys/vm/dirty_ratio", "sys/vm/dirty_bytes", "sys/vm/dirty_background_ratio", "sys/vm/dirty_background_bytes",
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
# Counters of what khugepaged has done.
_NO_SETTINGS = frozenset({"pages_collapsed", "full_scans"})
_PUBLIC = ("/tmp", "/var/tmp", "/run", "/run/octavo", "/dev/shm")  # noqa: S108
_GROUPS = ("", "memory", "unified", "freezer", "blkio", "cpuset")


@dataclass
class Ours:
    """What is known to be of this campaign: its directory, and the tokens of the commands that it started.

    In the directory a temporary one is for files outside of every state directory (TMPDIR).
    """

    place: Path
    tokens: set[str] = field(default_factory=set[str])

    @property
    def temporary(self) -> Path:
        """What TMPDIR is for the commands."""
        return self.place / "tmp"

    def learn(self, home: Path) -> None:
        """Notes the tokens of the journals that are there now."""
        self.tokens |= {path.stem for path in (home / "journal").glob("*.jsonl")}


def attach_once(image: Path) -> None:
    """Attaches an image to every loop device that has none, and takes it off again.

    When a device gets its first image the kernel chooses its readahead, and keeps that: nobody's change.
    """
    with image.open("wb") as file:
        file.truncate(1024**2)
    for device in sorted(Path("/sys/block").glob("loop*")):
        name = f"/dev/{device.name}"
        if not (device / "loop").exists():  # one that others take meanwhile is refused
            attached = subprocess.run(["losetup", "--direct-io=on", name, image], check=False, capture_output=True)
            if attached.returncode == 0:
                subprocess.run(["losetup", "--detach", name], check=True)
    image.unlink()


def take(ours: Ours) -> dict[str, str]:
    """Everything by its name, as text. What is equal before and after was put back."""
    found = dict(_values())
    found |= {f"swap {name}": str(size) for name, size in swaps().items()}
    found |= {f"device {path.name}": "" for path in Path("/sys/block").glob("zram*")}
    found |= {f"mount {mount.target}": mount.source for mount in mounts() if mount.target.is_relative_to(ours.place)}
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if (file := path.read_text(errors="replace").strip()).startswith(str(ours.place)):
                found[f"loop device {path.parts[-3]}"] = file
    found |= {f"process {pid}": command for pid, command in _processes(ours)}
    found |= dict.fromkeys((*_control_groups(ours), *_sockets(ours), *_files(ours), *_shared_memory()), "")
    return found


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A line for everything that is not as it was."""
    return [
        f"{name}: {before.get(name, 'not there')!r} became {after.get(name, 'not there')!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _values() -> Iterator[tuple[str, str]]:
    files = [Path("/proc", name) for name in _VALUES]
    files += [path for pattern in _SYSFS for path in Path("/sys").glob(pattern) if path.name not in _NO_SETTINGS]
    for path in files:
        with suppress(OSError):  # a directory, or a value that this kernel does not show
            yield str(path), path.read_text(errors="replace").strip()


def _processes(ours: Ours) -> Iterator[tuple[int, str]]:
    """Those with one of our tokens, or that work in our directory, without ourselves."""
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
    """Files of ours outside of the home, and what must not stay inside of it."""
    for directory in map(Path, _PUBLIC):
        for path in directory.glob("*"):
            if any(token[:8] in path.name for token in ours.tokens):
                yield f"file {path}"
    yield from (f"file {path}" for path in ours.temporary.glob("*"))
    for home in (ours.place, *ours.place.glob("*/")):
        for name in ("scratch", "volumes", "journal", "work"):
            yield from (f"file {path}" for path in (home / name).glob("*"))


def _shared_memory() -> Iterable[str]:
    """PostgreSQL's: System V segments that nobody uses any more, and POSIX ones whose server is gone."""
    for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[6] == "0":
            yield f"shared memory {fields[1]} of user {fields[7]}"
    used = _mapped()
    yield from (f"file {path}" for path in Path("/dev/shm").glob("PostgreSQL.*") if path.name not in used)  # noqa: S108


def _mapped() -> set[str]:
    """The POSIX shared memory of PostgreSQL servers that live."""
    found: set[str] = set()
    for entry in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            text = entry.read_text(errors="replace")
            found |= {word.rpartition("/")[2] for word in text.split() if word.startswith("/dev/shm/PostgreSQL.")}  # noqa: S108
    return found
