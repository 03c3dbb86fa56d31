"""Tar archives that somebody else made: unusual contents give a one-line error; reading fills no memory, and ends."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.security.test_endless import in_time

from octavo import archives
from octavo.errors import OctavoError, UsageError
from octavo.host.journal import Journal
from octavo.packaging import release
from octavo.postgres.source import unpack_file
from octavo.postgres.sources import tarball
from octavo.workload_support import restore


def _entry(name: str, content: bytes = b"", **facts: object) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    for key, value in facts.items():
        setattr(entry, key, value)
    return entry, content


def _tar(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _long_name(size: int) -> bytes:
    """The header of a name of this many bytes, as GNU's tar writes one; followed by zeros."""
    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, size
    return head.tobuf(tarfile.GNU_FORMAT)


def _sparse() -> bytes:
    head = tarfile.TarInfo("sparse")
    head.type = tarfile.GNUTYPE_SPARSE
    return head.tobuf(tarfile.GNU_FORMAT)


# Before Python 3.11.14 an entry of such a size moves the next entry's position back: it is read again, for ever.
_BACKWARDS = _tar(_entry("a", b"x" * 4096), _entry("b", pax_headers={"size": "-6144"}), _entry("c"))
_HEADERS = _tar(*[_entry(f"{'d' * 150}/{number}") for number in range(40)])
_MANY = _tar(*[_entry(str(number)) for number in range(40)])


def _refused(content: bytes, match: str, read: Callable[[io.BytesIO], object]) -> None:
    with pytest.raises(OctavoError, match=match) as raised:
        in_time(lambda: read(io.BytesIO(content)))
    assert "\n" not in str(raised.value)


def _all(file: io.BytesIO) -> object:
    with archives.opened(file) as archive:
        return archive.getmembers()


def test_what_no_archive_needs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _refused(_long_name(1 << 40), "headers of its entries are too long", _all)
    _refused(_tar(_entry("a", b"x"))[:1024] + _long_name(1 << 30), "headers of its entries are too long", _all)
    _refused(_sparse(), "sparse file", _all)
    _refused(_BACKWARDS, "ends before it begins", _all)
    monkeypatch.setattr(archives, "_MOST_ENTRIES", 30)
    _refused(_MANY, "more than 30 entries", _all)
    monkeypatch.setattr(archives, "_MOST_OF_HEADERS", 1024)
    _refused(_HEADERS, "headers of its entries are too long", _all)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_bomb_is_not_unpacked_to_its_end(pack: Callable[[bytes], bytes]) -> None:
    content = pack(_tar(_entry("a", bytes(4 << 20)), _entry("b")))
    assert len(content) < 10_000
    with pytest.raises(OctavoError, match="has more than 0 GB"):
        archives.opened(io.BytesIO(content), most_bytes=1 << 20).getmembers()
    assert len(archives.opened(io.BytesIO(content), most_bytes=None).getmembers()) == 2


class _Counted(io.BytesIO):
    """A file that counts the bytes read."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self.taken += len(piece)
        return piece


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_source_is_decompressed_once(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    contents = [random.Random(number).randbytes(1 << 20) for number in range(3)]
    file = _Counted(pack(_tar(*[_entry(f"pg/{number}", content) for number, content in enumerate(contents)])))
    tree = unpack_file(file, tmp_path / "target")
    assert [(tree / str(number)).read_bytes() for number in range(3)] == contents
    assert len(file.getvalue()) <= file.taken < 1.5 * len(file.getvalue())


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_damage_is_one_of_few_errors(pack: Callable[[bytes], bytes]) -> None:
    whole = bytearray(pack(_tar(*[_entry(str(number), bytes(range(256)) * 40) for number in range(200)])))
    for place in range(30, len(whole), max(1, len(whole) // 20)):
        damaged = bytes(whole[:place]) + bytes([whole[place] ^ 0x55]) + bytes(whole[place + 1 :])
        for content in (damaged, whole[:place]):
            try:
                with archives.opened(io.BytesIO(content)) as archive:
                    for member in archive:
                        file = archive.extractfile(member)
                        assert file is None or file.read() is not None
            except archives.DAMAGED:
                pass


def test_whoever_reads_a_tar_refuses_it(tmp_path: Path, journal: Journal, home: Path) -> None:
    del home
    path = tmp_path / "source.tar"
    path.write_bytes(_BACKWARDS)
    with pytest.raises(OctavoError, match="is refused"):
        in_time(lambda: tarball.take(path, journal))
    with pytest.raises(OctavoError, match="is refused"), path.open("rb") as file:
        in_time(lambda: unpack_file(file, tmp_path / "target"))
    with pytest.raises(OctavoError, match="is refused"):
        in_time(lambda: release._read(path, "a"))  # pyright: ignore[reportPrivateUsage]
    dump = tmp_path / "dump.tar"
    dump.write_bytes(_tar(_entry("toc.dat", b"PGDMP"), _entry("b", pax_headers={"size": "-2560"}), _entry("c")))
    with pytest.raises(OctavoError, match="is refused"):
        in_time(lambda: [restore.is_sql(dump)])


def test_a_licence_may_have_any_bytes_and_is_read_up_to_a_size(tmp_path: Path) -> None:
    path = tmp_path / "source.tar"
    path.write_bytes(_tar(_entry("pg/COPYRIGHT", b"\xff" + b"x" * (2 << 20), mtime=7)))
    found = release._read(path, "b")  # pyright: ignore[reportPrivateUsage]
    ((name, text),) = found.licences
    assert (name, found.epoch, len(text), text[:2]) == ("COPYRIGHT", 7, 1 << 20, "\ufffdx")


def test_licences_without_end_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "source.tar"
    path.write_bytes(_tar(*[_entry(f"pg/{number}/LICENSE", b"x", mtime=7) for number in range(101)]))
    with pytest.raises(OctavoError, match="more than 100 licence files"):
        release._read(path, "d")  # pyright: ignore[reportPrivateUsage]


def test_what_is_no_tar_at_all_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "source.tar.xz"
    path.write_bytes(lzma.compress(b"x" * 5000)[:-20])
    with pytest.raises(UsageError, match="not a tarball"):
        tarball.take(path, MagicMock())
    with pytest.raises(OctavoError, match="cannot be read"):
        release._read(path, "c")  # pyright: ignore[reportPrivateUsage]
