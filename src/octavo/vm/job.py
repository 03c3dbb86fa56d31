"""What a machine is to do: a tar archive on a disk of its own, with the command, the word that ends it, and files."""

import io
import os
import shlex
import stat
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from octavo.errors import HostError, UsageError

# The machine unpacks it on its data disk.
_MOST_BYTES = 1024**3
_BLOCK = 10_240


def write(
    descriptor: int, arguments: Sequence[str], word: str, files: Mapping[str, Path], programs: Mapping[str, bytes] = {}
) -> None:
    """Writes the archive to an open file. `files`: what the machine has below /scratch, by name; `programs`: ours.

    Only directories and regular files are taken. Raises HostError when one cannot be read, UsageError when they are
    too large.
    """
    with (
        os.fdopen(descriptor, "wb") as file,
        tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        _add(archive, ".command", (shlex.join(arguments) + "\n").encode())
        _add(archive, ".word", word.encode())
        for name, content in programs.items():
            _add(archive, name, content, 0o755)
        for name, path in files.items():
            try:
                archive.add(path, name, filter=_Plain())
            except OSError as error:
                raise HostError(f"--copy {path}: {error.strerror or error}") from None


class _Plain:
    """Directories and regular files, root's, up to a size."""

    def __init__(self) -> None:
        self._left = _MOST_BYTES

    def __call__(self, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not (member.isdir() or member.isreg()):
            return None
        self._left -= member.size
        if self._left < 0:
            raise UsageError("--copy: the files have more than 1 GB; give fewer")
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() or member.mode & stat.S_IXUSR else 0o644
        return member


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o600) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))
