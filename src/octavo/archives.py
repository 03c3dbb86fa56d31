"""Unpacking tar archives of others: nothing lands outside of the target, by whatever entry, on every Python.

Not by `TarFile.extractall(filter=…)`: Python 3.11.2, which is Debian 12's, does not have it (it came with 3.11.4), and
what it filters differs with the version. Here an archive has directories, files and links that stay inside; another
entry is refused by its name, before anything is written.
"""

import os
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath

from octavo.errors import OctavoError

_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID
# The year 2514; some filesystems end before.
_LATEST = 2**34


def extract(archive: tarfile.TarFile, target: Path) -> None:
    """Unpacks into the target directory, which is made when it is missing, with the files' times and modes.

    Files belong to who unpacks and are nobody else's to write. Symbolic links come last, so that nothing is written
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
