"""The mounts of this process's namespace, from /proc/self/mountinfo (proc_pid_mountinfo(5))."""

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from octavo.host.kernel_text import read, words

TABLE = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount: its device as `major:minor`, where it is, the filesystem's type, and what was mounted.

    `root` is the directory of the filesystem that is mounted there, `options` those of the filesystem (super options).
    """

    device: str
    target: Path
    kind: str
    source: str
    root: str = "/"
    options: str = ""


def mounts(table: Path = TABLE) -> list[Mount]:
    """All mounts, the later ones over the earlier. A line that is none is left out."""
    return list(_parsed(read(table)))


def at(target: Path, table: Path = TABLE) -> Mount | None:
    """The topmost mount on exactly this directory."""
    return next((mount for mount in reversed(mounts(table)) if mount.target == target), None)


def mount_of(path: Path, table: Path = TABLE) -> Mount | None:
    """The mount that an existing path is in; None where the table has none. Raises OSError."""
    number, place = path.stat().st_dev, path.resolve()
    wanted = f"{os.major(number)}:{os.minor(number)}"
    above = sorted(
        (mount for mount in mounts(table) if place.is_relative_to(mount.target)), key=lambda one: len(one.target.parts)
    )
    # Without one of that number (btrfs gives each subvolume its own) it is the innermost above the path.
    found = [mount for mount in above if mount.device == wanted] or above
    return found[-1] if found else None


def below(directory: Path, table: Path = TABLE) -> list[Mount]:
    """The mounts on the directory or in it."""
    return [mount for mount in mounts(table) if mount.target.is_relative_to(directory)]


@lru_cache(maxsize=2)  # it is read each time, as it may change, and asked for with every file whose owner counts
def _parsed(table: str) -> tuple[Mount, ...]:
    return tuple(mount for line in table.split("\n") if line and (mount := _mount(line)) is not None)


def _mount(line: str) -> Mount | None:
    before, _, after = line.partition(" - ")
    fields = words(before)
    # A source may be empty (mount(2) takes any), so that two blanks follow each other: no `words` here.
    kind, _, rest = after.partition(" ")
    source, _, options = rest.partition(" ")
    if len(fields) < 6 or not kind:
        return None
    return Mount(fields[2], Path(unescaped(fields[4])), kind, unescaped(source), unescaped(fields[3]), options)


def unescaped(text: str) -> str:
    """A path of the table with its octal escapes (of blanks, newlines and backslashes, a byte each) decoded."""
    raw = re.sub(rb"\\([0-3][0-7]{2})", lambda match: bytes([int(match[1], 8)]), os.fsencode(text))
    return os.fsdecode(raw)
