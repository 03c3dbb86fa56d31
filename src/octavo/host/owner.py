"""Whose a file is: its owner's, unless a user has mounted its filesystem, of which everything is that user's.

A filesystem in user space is a user's own program: what it says of owners and modes is made up, and what it gives to
whoever reads is another content each time. Root gets to see it where /etc/fuse.conf has user_allow_other
(mount.fuse(8)). An image or a stick that udisks or mount(8) has mounted for a user has in it what he has written there,
with root as its owner. So whoever asks whether a file is root's asks here.
"""

import os
import pwd
import re
from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path

from octavo.host.mounts import Mount, mounts, unescaped

_TABLE = Path("/proc/self/mountinfo")
# What mount(8) and udisks note of mounts that they made for a user (libmount's `user` and `uhelper`, mount(8)).
_NOTES = Path("/run/mount/utab")
_FUSE = re.compile(r"fuse(blk)?(\..*)?", re.DOTALL)
_NOTE = re.compile(r"(?:^|,)(?:user=([^,]*)|uhelper=)")
# Who is meant where it is not known which user it was.
NOBODY = 65534


def owner_of(facts: os.stat_result) -> int:
    """The user who can change what has these facts (stat(2)), be it by changing the filesystem."""
    return _mounted_by().get(facts.st_dev, facts.st_uid)


def mounted_by_users(table: Path = _TABLE, notes: Path = _NOTES) -> list[tuple[Mount, int]]:
    """The mounts that others than root have made, and who. Raises OSError where the kernel does not say what there is.

    In user space the kernel knows the user (`user_id` in the options), or there is none, as of virtiofs, where what
    answers is the host of this machine.
    """
    noted = dict(_noted(notes))
    found: list[tuple[Mount, int]] = []
    for mount in mounts(table):
        user = noted.get(str(mount.target), 0)
        if _FUSE.fullmatch(mount.kind):
            option = next((word for word in mount.options.split(",") if word.startswith("user_id=")), "")
            number = option.removeprefix("user_id=")
            user = int(number) if number.isdecimal() and len(number) <= 10 else user
        if user != 0:
            found.append((mount, user))
    return found


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
