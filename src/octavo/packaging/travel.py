"""A finished build as one file, for another host: packed where it was made, verified where it arrives.

The file is a tar.xz as packages are (`packaging.archive`), compressed faster, with the build's manifest in it, which
has the sha256 of every file. A received build must have the sent sha256 and exactly the files of the manifest, and its
server must start here; only then it is added to the cache.
"""

import json
import lzma
import re
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from octavo.archives import DAMAGED, extract, opened
from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home
from octavo.host import children
from octavo.host.children import build_account
from octavo.host.journal import Journal
from octavo.host.published import MANIFEST
from octavo.packaging.archive import write_tar
from octavo.postgres.builds.cache import Build, locked, publish, read_build, unpublished
from octavo.postgres.builds.make import quiet
from octavo.postgres.builds.usage import added_files
from octavo.postgres.source import sha256_of
from octavo.postgres.sources.snapshot import FULL

_NAME = re.compile(r"[0-9a-z.]{1,20}-[0-9a-zA-Z]{1,40}-[0-9a-f]{12}")
# A build has 60 MB, with debug symbols a few hundred.
MOST_PACKED = 1024**3
_MOST_UNPACKED = 4 * 1024**3
# xz's fastest: of a build of 35 MB it makes 9.3 MB in 3.9 s of CPU time, xz's default 7.3 MB in 29.7 s.
_PRESET = 0
# What xz may take to unpack, and what is read and written at once; bytes.
_MOST_MEMORY, _AT_ONCE = 128 * 1024**2, 1024**2
# The file says nothing of when it was made.
_EPOCH = 0


def check_name(name: str) -> None:
    """Raises OctavoError when it is not a name of a build: it becomes part of a path."""
    if not _NAME.fullmatch(name):
        raise OctavoError(f"{name!r} is not a name of a build")


def pack(build: Build, file: Path) -> str:
    """Writes the build, without extensions that were added to it, into a tar.xz, and returns the sha256 of that; the
    same build gives the same bytes. Raises HostError without room for it."""
    try:
        write_tar(build.prefix, file, _EPOCH, _PRESET, left_out=added_files(build))
        return sha256_of(file)
    except OSError as error:
        raise HostError(f"{build.name} cannot be packed: {error.strerror}; make room in {octavo_home()}") from error


def unpack(name: str, file: Path, digest: str, journal: Journal) -> Build:
    """Puts a packed build into the cache under its name, unless it is there. Raises OctavoError if it is incomplete,
    has another digest, is not a build of that name, or does not start here, HostError without room for it."""
    check_name(name)
    if file.stat().st_size > MOST_PACKED or sha256_of(file) != digest:
        raise OctavoError(f"{name}: the received archive differs from the sent one (sha256)")
    with locked(name, quiet):
        if (there := read_build(name)) is not None:
            return there
        with unpublished(name, journal) as root:
            try:
                with _decompressed(name, file) as unpacked, opened(unpacked, mode="r:") as archive:
                    archive.name = name
                    extract(archive, root)
                manifest = json.loads((root / MANIFEST).read_bytes())
                _check(name, root, manifest)
            except (*DAMAGED, KeyError, TypeError, AttributeError) as error:
                if isinstance(error, OSError) and error.errno in FULL:
                    raise HostError(
                        f"{name} cannot be unpacked: {error.strerror}; make room in {octavo_home()}"
                    ) from error
                raise OctavoError(f"{name}: the received archive is not a valid build ({error!r:.200})") from error
            reported = children.check(
                children.run([root / "bin" / "postgres", "--version"], journal, role="smoke test",
                             account=build_account()),
                f"{name}, which was made on another host,",
            ).stdout.strip()  # fmt: skip
            if reported != manifest["reported"]:
                raise OctavoError(f"{name} says {reported!r} here, and {manifest['reported']!r} where it was made")
            (root / MANIFEST).unlink()
            return publish(root, name, manifest)


@contextmanager
def _decompressed(name: str, file: Path) -> Generator[IO[bytes], None, None]:
    """The tar, in a file without a name. Raises OctavoError for what is not xz, has no end, or is too large."""
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    scratch = make_directory(octavo_home() / "scratch")
    with file.open("rb") as packed, tempfile.TemporaryFile(dir=scratch) as unpacked:
        while not unpacker.eof:
            some = packed.read(_AT_ONCE) if unpacker.needs_input else b""
            if (unpacker.needs_input and not some) or unpacked.tell() > _MOST_UNPACKED:
                raise OctavoError(f"{name}: the received archive has no end, or is larger than a build")
            try:
                unpacked.write(unpacker.decompress(some, _AT_ONCE))
            except lzma.LZMAError as error:
                raise OctavoError(f"{name}: the received archive is not a valid build ({error})") from error
        unpacked.seek(0)
        yield unpacked


def _check(name: str, root: Path, manifest: Mapping[str, Any]) -> None:
    """Raises ValueError when the files are not those of the manifest, or the manifest is another build's."""
    if not name.startswith(f"{manifest['version']}-") or not name.endswith(f"-{manifest['key']}"):
        raise ValueError("the manifest is of another build")
    there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - {MANIFEST}
    if there != set(manifest["files"]):
        raise ValueError(f"files that differ: {sorted(there ^ set(manifest['files']))[:3]}")
    for file, sha256 in manifest["files"].items():
        if sha256_of(root / file) != sha256:
            raise ValueError(f"{file} is not what the manifest says")
