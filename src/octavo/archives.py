"""Reading and unpacking untrusted tar archives: no entry is written outside of the target, with any version of Python.

`opened` reads no more than an archive can need: `tarfile` keeps every entry, reads names of any length into memory, and
before Python 3.11.14 and 3.13.6 loops for ever on an entry with a negative size (CVE-2025-8194).

It does not use `TarFile.extractall(filter=…)`: Debian 12's Python 3.11.2 does not have it (it came with 3.11.4), and
its filters differ between versions. Here an archive has directories, files and links that stay inside; any other entry
is refused by name before anything is written.
"""

import io
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar

from octavo.errors import OctavoError

_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID
# The year 2514; some filesystems end before.
_LATEST = 2**34
# A source has 10,000 entries, a dump one for each table; a release unpacked has 200 MB. What comes before an entry
# says its long name, and who owns it.
_MOST_ENTRIES = 250_000
_MOST_BYTES = 8 * 1024**3
_LONGEST_HEADER, _MOST_OF_HEADERS = 8 * 1024, 64 * 1024**2
_HEADERS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip
# Bytes that are decompressed, and read, at once.
_PIECE, _AT_ONCE = 1024**2, 128 * 1024
# What is raised for one that is damaged, or none.
DAMAGED = (tarfile.TarError, EOFError, OSError, ValueError, lzma.LZMAError, zlib.error)


class _Entry(tarfile.TarInfo):
    """An entry whose header is read up to a size. Holes in files (GNU's sparse ones) have none of ours."""

    def _proc_member(self, archive: "_Archive") -> tarfile.TarInfo:
        if self.type in _HEADERS:
            archive.of_headers += self.size
            if self.size > _LONGEST_HEADER or archive.of_headers > _MOST_OF_HEADERS:
                raise archive.refused("the headers of its entries are too long")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise archive.refused("it has a sparse file")
        tar: Any = super()
        return tar._proc_member(archive)

    def _proc_gnusparse_10(self, _next: object, _headers: object, archive: "_Archive") -> None:
        raise archive.refused("it has a sparse file")


class _Archive(tarfile.TarFile):
    """An archive that is read up to a size, and never backwards."""

    tarinfo: ClassVar[type[tarfile.TarInfo]] = _Entry  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, *arguments: Any, most_bytes: int | None, **options: Any) -> None:
        self.most_bytes = most_bytes
        self.of_headers = 0
        super().__init__(*arguments, **options)

    def next(self) -> tarfile.TarInfo | None:
        """As TarFile does it. Raises OctavoError for more than an archive can need."""
        known: Any = self  # what the types of the library leave out
        is_read, before = known.firstmember is not None, self.offset
        try:
            member = super().next()
        except (lzma.LZMAError, zlib.error) as error:
            raise tarfile.ReadError(str(error)) from None
        if member is None or is_read:
            return member
        if self.offset <= before or member.size < 0:
            raise self.refused("an entry ends before it begins")
        if len(known.members) > _MOST_ENTRIES:
            raise self.refused(f"it has more than {_MOST_ENTRIES:,} entries")
        if self.most_bytes is not None and self.offset > self.most_bytes:
            raise self.refused(f"it has more than {self.most_bytes // 1024**3} GB")
        return member

    def refused(self, why: str) -> OctavoError:
        """The error for an archive that is not read."""
        return OctavoError(f"{self.name or 'the archive'} is refused: {why}; give another archive")


def opened(file: IO[bytes], *, mode: str = "r:*", most_bytes: int | None = _MOST_BYTES) -> tarfile.TarFile:
    """The archive in an open file; `mode` as in `tarfile.open`, `most_bytes` of it unpacked, None for any number.

    Raises what is in `DAMAGED`, and OctavoError for features that no such archive needs, at opening and when entries
    are read.
    """
    tar: Any = _Archive  # what a mode may be is written out for `tarfile.open`
    return tar.open(fileobj=file, mode=mode, most_bytes=most_bytes)


@contextmanager
def opened_to_extract(file: IO[bytes], scratch: Path) -> Generator[tarfile.TarFile, None, None]:
    """The same, decompressed once: `extract` reads every header before it writes a file, and then the contents.

    The decompressed data is kept in an unnamed file in the directory `scratch`.
    """
    with opened(file) as archive:
        packed: Any = archive.fileobj  # the file itself, or what decompresses it
        if packed is file:
            yield archive
            return
        packed.seek(0)
        with (
            tempfile.TemporaryFile(dir=scratch) as kept,
            io.BufferedReader(_Decompressed(packed, kept), _AT_ONCE) as plain,
            opened(plain, mode="r:") as unpacked,
        ):
            unpacked.name = archive.name
            yield unpacked


class _Decompressed(io.RawIOBase):
    """What is read of a decompressor, which goes forward alone, as a file in which one can go back."""

    def __init__(self, packed: Any, kept: IO[bytes]) -> None:
        super().__init__()
        self._packed, self._kept = packed, kept
        self._size = self._at = 0  # of what was decompressed so far; where the next reading begins

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_END:
            raise io.UnsupportedOperation("its end is not known")
        self._at = offset + (self._at if whence == os.SEEK_CUR else 0)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        while self._size < self._at + len(buffer) and (piece := self._packed.read(_PIECE)):
            self._kept.seek(self._size)
            self._size += self._kept.write(piece)
        self._kept.seek(self._at)
        content = self._kept.read(len(buffer))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def extract(archive: tarfile.TarFile, target: Path) -> None:
    """Unpacks into the target directory, which is created if it is missing, with the files' times and modes.

    Files belong to the caller, and nobody else can write them. Symbolic links come last, so that nothing is written
    through one. Raises OctavoError for an entry that is refused, and what `tarfile` raises.
    """
    members = archive.getmembers()
    for member in members:
        _check(member, archive.name)
        time_of(member, archive.name)
    target.mkdir(parents=True, exist_ok=True)
    links: list[tuple[tarfile.TarInfo, Path]] = []
    for member in members:
        path = target / member.name
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.issym():
            links.append((member, path))
        elif member.islnk():
            _gone(path)
            os.link(target / member.linkname, path, follow_symlinks=False)
        else:
            _write(archive, member, path)
    for member, path in links:
        _gone(path)
        path.symlink_to(member.linkname)
    root = target.resolve()
    for member, path in links:  # a link may lead through others
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise OctavoError(_refused(member, archive.name, f"it leads outside, to {member.linkname}"))


def time_of(member: tarfile.TarInfo, archive: object) -> int:
    """When an entry was changed last, in seconds of the epoch. Raises OctavoError where no file can have that time.

    A header holds numbers up to 2**95, an extended one any text that Python takes for a number, such as inf.
    """
    if not 0 <= member.mtime < _LATEST:  # nor is nan
        raise OctavoError(_refused(member, archive, "its time is out of range"))
    return int(member.mtime)


def _check(member: tarfile.TarInfo, archive: object) -> None:
    """Raises OctavoError for an entry that is not to be unpacked."""
    problem = ""
    if _leaves(member.name):
        problem = "its name leads outside"
    elif not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        problem = "it is a device or another special file"
    elif member.issym() and _leaves(str(PurePosixPath(member.name).parent / member.linkname), member.linkname):
        problem = f"it leads outside, to {member.linkname}"
    elif member.islnk() and _leaves(member.linkname):
        problem = f"it is a link to {member.linkname}, outside"
    elif member.isreg() and member.mode & _SPECIAL_BITS:
        problem = "it is setuid or setgid"
    if problem:
        raise OctavoError(_refused(member, archive, problem))


def _refused(member: tarfile.TarInfo, archive: object, problem: str) -> str:
    return f"{archive}: {member.name} is refused: {problem}; give another archive"


def _leaves(name: str, link: str = "") -> bool:
    """Whether a name, or a link, is absolute or climbs out."""
    if name.startswith("/") or link.startswith("/") or "\0" in name:
        return True
    return os.path.normpath(name).split("/")[0] == ".." or (not link and ".." in PurePosixPath(name).parts)


def _gone(path: Path) -> None:
    """Takes away what an earlier entry of the same name left, as tar does."""
    path.unlink(missing_ok=True)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = archive.extractfile(member)
    assert content is not None
    _gone(path)
    mode = 0o755 if member.mode & 0o111 else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with content, os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.utime(file.fileno(), (member.mtime, member.mtime))
