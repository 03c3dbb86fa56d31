"""A finished build as one file, for another host: packed where it was made, checked byte by byte where it arrives.

The file is a tar.xz as packages are (`packaging.archive`), with the build's manifest in it, which has the sha256 of
every file. What arrives has to be what was sent (its own sha256), all that the manifest names and no more, and a
server that starts here; only then it is in the cache.
"""

import hashlib
import io
import json
import lzma
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from octavo.postgres.source import sha256_of

_NAME = re.compile(r"[0-9a-z.]{1,20}-[0-9a-zA-Z]{1,40}-[0-9a-f]{12}")
# A build has 60 MB, with debug symbols a few hundred.
_MOST_PACKED = 1024**3
_MOST_UNPACKED = 4 * 1024**3
# The file says nothing of when it was made.
_EPOCH = 0


def pack(build: Build) -> bytes:
    """The build as a tar.xz; the same build gives the same bytes. Raises HostError without room for it."""
    try:
        with tempfile.TemporaryDirectory(dir=make_directory(octavo_home() / "scratch"), prefix="send-") as place:
            file = Path(place) / "build.tar.xz"
            write_tar(build.prefix, file, _EPOCH)
            return file.read_bytes()
    except OSError as error:
        raise HostError(f"{build.name} cannot be packed: {error.strerror}; make room in {octavo_home()}") from error


def digest_of(content: bytes) -> str:
    """The content's address: its sha256."""
    return hashlib.sha256(content).hexdigest()


def unpack(name: str, content: bytes, digest: str, journal: Journal) -> Build:
    """Puts a packed build into the cache under its name, unless it is there. Raises OctavoError for what is not whole,
    not what the digest says, no build of that name, or does not start here."""
    if not _NAME.fullmatch(name):
        raise OctavoError(f"{name!r} is not a name of a build")
    if len(content) > _MOST_PACKED or digest_of(content) != digest:
        raise OctavoError(f"{name}: the received archive differs from the sent one (sha256)")
    with locked(name, quiet):
        if (there := read_build(name)) is not None:
            return there
        with unpublished(name, journal) as root:
            try:
                with opened(io.BytesIO(_decompressed(name, content)), mode="r:") as archive:
                    archive.name = name
                    extract(archive, root)
                manifest = json.loads((root / MANIFEST).read_bytes())
                _check(name, root, manifest)
            except (*DAMAGED, KeyError, TypeError, AttributeError) as error:
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


def _decompressed(name: str, content: bytes) -> bytes:
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    try:
        unpacked = unpacker.decompress(content, _MOST_UNPACKED)
    except lzma.LZMAError as error:
        raise OctavoError(f"{name}: the received archive is not a valid build ({error})") from error
    if not unpacker.eof:
        raise OctavoError(f"{name}: the received archive has no end, or is larger than a build")
    return unpacked


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
