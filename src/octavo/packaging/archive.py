"""Archives without traces of when, where and by whom they were made."""

import lzma
import tarfile
from collections.abc import Collection, Iterable
from pathlib import Path

# What xz(1) and dpkg-deb(1) take; one thread, for the block boundaries of several would show in the bytes.
_PRESET = 6
# The header of ar(5): name, time, user, group, mode in octal, size; each member begins at an even offset.
_AR_MAGIC = b"!<arch>\n"


def write_tar(
    tree: Path, file: Path, epoch: int, preset: int = _PRESET, *, left_out: Collection[str] = frozenset()
) -> None:
    """Writes everything below the tree but the paths `left_out` into a tar.xz: in the order of names, owned by root,
    dated `epoch` (seconds). `preset` is xz's."""
    with (
        lzma.open(file, "wb", format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=preset) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        # Not the tree itself: unpacking it would change the directory that it is unpacked into.
        for path in sorted(tree.rglob("*")):
            if str(path.relative_to(tree)) in left_out:
                continue
            facts = archive.gettarinfo(path, f"./{path.relative_to(tree)}")
            facts.uid = facts.gid = 0
            facts.uname = facts.gname = "root"
            facts.mtime = epoch
            facts.mode = 0o755 if facts.isdir() or facts.mode & 0o100 else 0o644
            if facts.isreg():
                with path.open("rb") as content:
                    archive.addfile(facts, content)
            else:
                archive.addfile(facts)


def write_ar(members: Iterable[Path], file: Path, epoch: int) -> None:
    """Writes the members into an ar archive as deb(5) has it: in their order, dated `epoch` (seconds)."""
    with file.open("wb") as archive:
        archive.write(_AR_MAGIC)
        for member in members:
            content = member.read_bytes()
            archive.write(f"{member.name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
            archive.write(content + b"\n" * (len(content) % 2))
