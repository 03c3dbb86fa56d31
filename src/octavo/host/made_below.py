"""Limits where a child may create files if the filter cannot see all of its system calls: to places that are searched
later.

This applies to a child with io_uring, and to every child where there is no filter (`mode_filter`). Landlock
(landlock(7)) allows it to create, link and rename files only below the state directory and the one for sockets, where
Octavo owns or removes what it leaves, and in `PLACES`, which `set_user_id` searches. Needs Linux 5.19.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from octavo.home import octavo_home, runtime_directory

# The host's world-writable sticky directories (Filesystem Hierarchy Standard; shm_overview(7)).
PLACES = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108

# The same numbers on every machine (the kernel's include/uapi/asm-generic/unistd.h, include/uapi/linux/landlock.h).
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _BELOW_A_PATH = 1, 1  # LANDLOCK_CREATE_RULESET_VERSION, LANDLOCK_RULE_PATH_BENEATH
_MAKE_FILE, _REFER = 1 << 8, 1 << 13  # LANDLOCK_ACCESS_FS_MAKE_REG, _REFER: to link or rename into another directory
_FIRST_WITH_REFER = 2  # before it every renaming into another directory is refused

_libc = ctypes.CDLL(None, use_errno=True)


def is_available() -> bool:
    """Whether this kernel can restrict where files are made."""
    return _libc.syscall(_CREATE, None, 0, _VERSION) >= _FIRST_WITH_REFER


def restrict(places: Iterable[Path]) -> bool:
    """Permanently restricts the calling thread, and its children, to creating files below these directories.

    Returns whether it is restricted. Needs CAP_SYS_ADMIN or no new privileges. Directories that do not exist are left
    out.
    """
    if not is_available():
        return False
    asked = ctypes.create_string_buffer(struct.pack("=Q", _MAKE_FILE | _REFER), 8)
    rules = _libc.syscall(_CREATE, asked, 8, 0)
    if rules < 0:
        return False
    try:
        for place in places:
            with suppress(FileNotFoundError):
                directory = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    rule = ctypes.create_string_buffer(struct.pack("=Qi", _MAKE_FILE | _REFER, directory), 12)
                    if _libc.syscall(_ADD, rules, _BELOW_A_PATH, rule, 0) != 0:
                        return False
                finally:
                    os.close(directory)
        return _libc.syscall(_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)


def where_octavo_looks() -> list[Path]:
    """The state directory, what links in it lead to, the directory for sockets, and `PLACES`. Raises HostError."""
    home = octavo_home()
    found = [home, runtime_directory(), *PLACES]
    with suppress(FileNotFoundError):  # a disk of its own for builds or data
        found += [entry.resolve() for entry in home.iterdir() if entry.is_symlink() and entry.is_dir()]
    return found
