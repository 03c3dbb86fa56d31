"""Reading programs: a file, those of a package or of an archive, those below a directory."""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from octavo.binary.core_types import ElfReport
from octavo.errors import HostError, UsageError, cannot_read
from octavo.host.careful_open import open_directory, open_file

# A directory of more is no installation of PostgreSQL.
_MOST_FILES = 200_000
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_ELF, _ARCHIVE = b"\x7fELF", b"!<arch>\n"


@dataclass(frozen=True, slots=True)
class Program:
    """An ELF file: its contents, or the reason why it could not be read."""

    name: str
    report: ElfReport | None
    problem: str = ""


def read(path: Path) -> list[Program]:
    """The programs of a file, a package (.deb), an archive (.a) or a directory.

    Below a directory links are not followed, and other files than ELF files, packages and archives are left out. Raises
    UsageError for a path that does not exist or has no program that can be read, HostError if it may not be opened.
    """
    try:
        descriptor = _opened(path)
    except NotADirectoryError:
        raise UsageError(f"{path} is not a file, package or directory") from None
    except OSError as error:
        raise cannot_read(error, f"{path}: {error.strerror}") from None
    try:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        found = list(_below(path, descriptor)) if is_directory else _of(str(path), descriptor)
    finally:
        os.close(descriptor)
    if not found:
        raise UsageError(f"{path} contains no ELF file")
    if len(found) == 1 and found[0].problem and found[0].name == str(path):
        raise UsageError(f"{path} {found[0].problem}")
    return found


def _opened(path: Path) -> int:
    """A regular file or a directory, never through a link that others could have put there. Raises OSError."""
    try:
        return open_file(path)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return open_directory(path)


def read_one(path: Path) -> ElfReport:
    """The contents of a single ELF file. Raises HostError, and OSError when it cannot be opened."""
    descriptor = os.open(path, _OPEN)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise HostError(f"{path} is not a file")
        found = _of(str(path), descriptor)
    finally:
        os.close(descriptor)
    if len(found) != 1 or found[0].name != str(path):
        raise HostError(f"{path} contains several programs; specify one")
    if found[0].report is None:
        raise HostError(f"{path} {found[0].problem}")
    return found[0].report


def _of(name: str, descriptor: int) -> list[Program]:
    try:
        from octavo._core import binary_scan
    except ImportError as error:
        raise HostError(f"programs cannot be read here: {error}") from None
    try:
        # The file that is open, whatever has its name by now.
        scanned = binary_scan(f"/proc/self/fd/{descriptor}", lambda _: None)
    except OSError as error:
        return [Program(name, None, f"cannot be read: {error.strerror}")]
    except ValueError as error:
        return [Program(name, None, str(error))]
    return [
        Program(name if inside is None else f"{name}:{inside.removeprefix('./')}", report, problem or "")
        for inside, report, problem in scanned
    ]


def _below(top: Path, descriptor: int) -> Iterator[Program]:
    """Those of a directory, in the order of their names."""
    seen = 0
    for place, directories, files, above in os.fwalk(".", dir_fd=descriptor, follow_symlinks=False):
        directories.sort()
        for name in sorted(files):
            seen += 1
            if seen > _MOST_FILES:
                raise HostError(f"{top} has more than {_MOST_FILES:,} files; name a directory below it")
            try:
                # Opening a device may have an effect, such as starting a watchdog.
                if not stat.S_ISREG(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                    continue
                file = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=above)
            except OSError:  # gone, or not ours to read
                continue
            try:
                if _is_wanted(file):
                    yield from _of(str(top / place / name), file)
            finally:
                os.close(file)


def _is_wanted(file: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file).st_mode) and os.pread(file, 8, 0).startswith((_ELF, _ARCHIVE))
    except OSError:  # as some files of /proc
        return False
