"""The owner of a file: its st_uid, or, in a filesystem that a user mounted, that user.

A filesystem in user space is a user's own program: it can invent owners and modes, and return other content at each
read. Root can access it where /etc/fuse.conf has user_allow_other (mount.fuse(8)). An image or a stick that udisks or
mount(8) has mounted for a user may contain files that the user wrote with root as their owner. Every check whether a
file is root's is therefore made here.
"""

import os
import pwd
import re
import select
from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from octavo.host.mounts import Mount, mounts, unescaped

_TABLE = Path("/proc/self/mountinfo")
# What mount(8) and udisks note of mounts that they made for a user (libmount's `user` and `uhelper`, mount(8)).
_NOTES = Path("/run/mount/utab")
_FUSE = re.compile(r"fuse(blk)?(\..*)?", re.DOTALL)
_NOTE = re.compile(r"(?:^|,)(?:user=([^,]*)|uhelper=)")
# Who is meant where it is not known which user it was.
NOBODY = 65534


def owner_of(facts: os.stat_result) -> int:
    """The user who can change the file with these facts (stat(2)), if necessary by changing the filesystem."""
    return _MOUNTED.by_device().get(facts.st_dev, facts.st_uid)


def mounted_by_users(table: Path = _TABLE, notes: Path = _NOTES) -> list[tuple[Mount, int]]:
    """The mounts made by users other than root, with the user. Raises OSError if the kernel does not show the mounts.

    For filesystems in user space the kernel knows the user (`user_id` in the options); virtiofs has none, because the
    host of this machine serves it.
    """
    noted = dict(_noted(notes))
    found: list[tuple[Mount, int]] = []
    for mount in mounts(table):
        user = noted.get(str(mount.target), 0)
        if _FUSE.fullmatch(mount.kind):
            option = next((word for word in mount.options.split(",") if word.startswith("user_id=")), "")
            number = option.removeprefix("user_id=")
            # Of a stick with NTFS that udisks has mounted the kernel has root, who runs its driver.
            user = (int(number) if number.isdecimal() and len(number) <= 10 else 0) or user
        if user != 0:
            found.append((mount, user))
    return found


class MountedByUsers:
    """The same by device number, read again only after a change: a user may have a thousand mounts, and every step of a
    path is looked up.

    The kernel signals every change of the mounts (poll(2) of mountinfo, proc_pid_mountinfo(5)).
    """

    def __init__(self, table: Path = _TABLE, notes: Path = _NOTES) -> None:
        self._table, self._notes = table, notes
        self._lock = Lock()
        self._file: BinaryIO | None = None
        self._noted: tuple[int, ...] | None = None
        self._process = 0
        self._found: Mapping[int, int] = {}

    def by_device(self) -> Mapping[int, int]:
        """The users of mounts that are not root's. Raises OSError if the kernel does not show the mounts."""
        with self._lock:
            noted = self._when_noted()
            if self._file is None or self._process != os.getpid() or noted != self._noted or _has_changed(self._file):
                # A child's own: it would take the news from a file that it shares. Opened before it is read, so that
                # what changes meanwhile is news.
                file = self._table.open("rb")
                self._found = _mounted_by(self._table, self._notes)
                self._file, self._process, self._noted = file, os.getpid(), noted
            return self._found

    def _when_noted(self) -> tuple[int, ...] | None:
        try:
            facts = self._notes.stat()
        except OSError:
            return None
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


_MOUNTED = MountedByUsers()


def _has_changed(table: BinaryIO) -> bool:
    asked = select.poll()
    asked.register(table, select.POLLPRI)
    return bool(asked.poll(0))


def _mounted_by(table: Path = _TABLE, notes: Path = _NOTES) -> Mapping[int, int]:
    """The same by the number of the device that stat(2) says, which no filesystem makes up."""
    found: dict[int, int] = {}
    for mount, user in mounted_by_users(table, notes):
        major, _, minor = mount.device.partition(":")
        found[os.makedev(int(major), int(minor))] = user
        if not _FUSE.fullmatch(mount.kind):  # which may not answer; of btrfs stat(2) says another number
            with suppress(OSError):
                found[mount.target.stat().st_dev] = user
    return found


def _noted(notes: Path) -> Generator[tuple[str, int], None, None]:
    """Where something was mounted for a user, and who that was."""
    try:
        lines = os.fsdecode(notes.read_bytes()).split("\n")
    except OSError:
        return
    for line in lines:
        words = {name: value for name, _, value in (word.partition("=") for word in line.split(" "))}
        if match := _NOTE.search(words.get("OPTS", "")):
            yield unescaped(words.get("TARGET", "")), _user(match[1])


def _user(name: str | None) -> int:
    try:
        return pwd.getpwnam(name).pw_uid if name else NOBODY
    except KeyError:
        return NOBODY
