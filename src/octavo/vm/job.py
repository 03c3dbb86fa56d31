"""The job of a machine: a tar archive on a disk of its own, with the command, the token that marks its end, and files.

Files are opened once, never through a link that others could have created, and read by that descriptor, so that the
owner of a directory that root copies cannot get root's files into the machine.
"""

import io
import os
import shlex
import stat
import tarfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import HostError, UsageError
from octavo.host.careful_open import NO_LINK, open_file
from octavo.host.tree_walk import walk
from octavo.units import human_size

# The machine unpacks it on its data disk.
_MOST_BYTES = 1024**3
_COMMAND, _WORD = ".command", ".word"


def name_of(path: Path) -> str:
    """The name of a file or directory of the user's below /scratch. Raises UsageError for one that cannot have it."""
    name = os.path.basename(os.path.abspath(path))  # noqa: PTH100, PTH119 (pathlib keeps a .. at the end)
    if name in ("", _COMMAND, _WORD):
        raise UsageError(f"{path} cannot have its name in the machine; copy another file or directory")
    return name


def write(
    descriptor: int,
    arguments: Sequence[str],
    word: str,
    files: Mapping[str, Path],
    programs: Mapping[str, bytes] = {},
    *,
    disk: int = _MOST_BYTES,
) -> None:
    """Writes the archive to an open file. `files`: the machine's files below /scratch, by name; `programs`: Octavo's
    own; `disk`: bytes of the data disk, which has to hold them all.

    Only directories and regular files are included, owned by root. Raises HostError if one cannot be read, UsageError
    if they are too large.
    """
    with (
        os.fdopen(descriptor, "wb") as file,
        tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        _add(archive, _COMMAND, os.fsencode(shlex.join(arguments) + "\n"))
        _add(archive, _WORD, word.encode())
        for name, content in programs.items():
            _add(archive, name, content, 0o755)
        left = min(disk, _MOST_BYTES)
        for name, path in files.items():
            try:
                for inside, opened in _each(path):
                    size = 0 if opened is None else os.fstat(opened).st_size
                    if (left := left - size) < 0:
                        larger = ", or a larger --disk" if disk < _MOST_BYTES else ""
                        most = human_size(min(disk, _MOST_BYTES))
                        raise UsageError(f"--copy: the files have more than {most}; give fewer{larger}")
                    _copy(archive, f"{name}/{inside}".rstrip("/"), opened)
            except OSError as error:
                raise HostError(f"--copy {path}: {error.strerror or error}") from None


def _each(path: Path) -> Generator[tuple[str, int | None], None, None]:
    """A file, or a directory's directories (without a descriptor) and files, by their paths below it."""
    if not path.is_dir():
        with _closing(open_file(path)) as descriptor:
            yield "", descriptor
        return
    for place in walk(path, strict=True):
        yield place.path, None
        for name in place.names:
            if stat.S_ISREG(os.stat(name, dir_fd=place.descriptor, follow_symlinks=False).st_mode):
                with _closing(os.open(name, NO_LINK, dir_fd=place.descriptor)) as descriptor:
                    yield f"{place.path}/{name}".lstrip("/"), descriptor


@contextmanager
def _closing(descriptor: int) -> Generator[int, None, None]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(archive: tarfile.TarFile, name: str, descriptor: int | None) -> None:
    member = tarfile.TarInfo(name)
    if descriptor is None:
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(member)
        return
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):  # replaced meanwhile
        return
    member.size, member.mode = facts.st_size, 0o755 if facts.st_mode & stat.S_IXUSR else 0o644
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        archive.addfile(member, file)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o600) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))
