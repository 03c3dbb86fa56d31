"""The mounts of this process's namespace, from /proc/self/mountinfo (proc_pid_mountinfo(5))."""

import re
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount: its device as `major:minor`, where it is, the filesystem's type, and what was mounted."""

    device: str
    target: Path
    kind: str
    source: str


def mounts(table: Path = _TABLE) -> list[Mount]:
    """All mounts, the later ones over the earlier."""
    found: list[Mount] = []
    for line in table.read_text().splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, source) = before.split(), after.split()[:2]
        found.append(Mount(fields[2], Path(_plain(fields[4])), kind, _plain(source)))
    return found


def at(target: Path, table: Path = _TABLE) -> Mount | None:
    """What is mounted on exactly this directory, the topmost."""
    return next((mount for mount in reversed(mounts(table)) if mount.target == target), None)


def below(directory: Path, table: Path = _TABLE) -> list[Mount]:
    """What is mounted on the directory or in it."""
    return [mount for mount in mounts(table) if mount.target.is_relative_to(directory)]


def _plain(text: str) -> str:
    """Without the octal escapes that stand for blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
