"""The first filesystem of a kernel, as it unpacks it into memory: a cpio archive (newc), and the modules' order.

Format: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
"""

import lzma
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host.careful_open import NO_LINK

DIRECTORY, FILE, PROGRAM, LINK = 0o040755, 0o100644, 0o100755, 0o120777
_MAGIC = b"070701"
_END = "TRAILER!!!"
# The largest modules have a few MB, with debug information a hundred; what xz may take to unpack one.
_MOST_BYTES, _MOST_MEMORY = 256 * 1024**2, 128 * 1024**2
_DEPENDS = re.compile(rb"\0depends=([^\0]{0,4096})\0")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, directory or link (its content is the target) with its mode."""

    name: str
    mode: int
    content: bytes = b""


def pack(entries: Iterable[Entry]) -> bytes:
    """The archive of these entries, all root's, at the epoch: the same entries make the same bytes."""
    packed = bytearray()
    for number, entry in enumerate([*entries, Entry(_END, 0)], 1):
        name = entry.name.encode() + b"\0"
        # Number, mode, user, group, links, time, size, four device numbers, length of the name, no checksum.
        fields = (number, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, 0, 0, len(name), 0)
        packed += _MAGIC + "".join(f"{field:08X}" for field in fields).encode() + name
        packed += bytes(-len(packed) % 4)
        packed += entry.content
        packed += bytes(-len(packed) % 4)
    return bytes(packed)


def modules_in(tree: Path) -> dict[str, Path]:
    """The kernel's modules below a directory by their name, in which - is _ (modprobe(8)).

    Raises OctavoError when they are compressed otherwise than with xz: without them, as if they were built into the
    kernel, the machine would not find its disks.
    """
    found: dict[str, Path] = {}
    for path in sorted(tree.rglob("*.ko*")):
        name, _, kind = path.name.partition(".ko")
        if kind in (".gz", ".zst"):
            raise OctavoError(
                f"{path.name}: the kernel's modules may be compressed with xz or not at all; build it with "
                "CONFIG_MODULE_COMPRESS_XZ or CONFIG_MODULE_COMPRESS_NONE"
            )
        if kind in ("", ".xz"):
            found[name.replace("-", "_")] = path
    return found


def read_module(path: Path) -> bytes:
    """A module as the kernel takes it, decompressed. Raises OSError, lzma.LZMAError, and OctavoError for no module."""
    content = read_regular(path, _MOST_BYTES)
    if not path.name.endswith(".xz"):
        return content
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    module = unpacker.decompress(content, _MOST_BYTES)
    if not unpacker.eof:
        raise OctavoError(f"{path.name} is damaged, or larger than any module")
    return module


def read_regular(path: Path, most: int) -> bytes:
    """The contents of a file of a kernel's package, which may be untrusted: never through a link, nor from a file
    without an end or that others write. Raises OSError, and OctavoError for other kinds of files."""
    descriptor = os.open(path, NO_LINK)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > most:
            raise OctavoError(f"{path.name} is not a regular file of at most {most // 1024**2} MB")
        return file.read(most)


def in_order(wanted: Iterable[str], there: Mapping[str, Path]) -> list[tuple[str, bytes]]:
    """The modules and their dependencies, each after those that it needs. Modules built into the kernel have no file,
    and are left out.

    Raises OctavoError where a module is needed by another and missing.
    """
    ordered: dict[str, bytes] = {}
    waiting: set[str] = set()

    def add(name: str, needed_by: str | None) -> None:
        if name in ordered or name in waiting:
            return
        if name not in there:
            if needed_by:
                raise OctavoError(f"the kernel's package has no module {name}, which {needed_by} needs")
            return
        waiting.add(name)
        content = read_module(there[name])
        for other in depends_on(content):
            add(other, name)
        ordered[name] = content

    for name in wanted:
        add(name, None)
    return list(ordered.items())


def depends_on(module: bytes) -> list[str]:
    """The dependencies that a module declares, by name."""
    match = _DEPENDS.search(module)
    return [name.replace("-", "_") for name in match[1].decode("ascii", "replace").split(",") if name] if match else []
