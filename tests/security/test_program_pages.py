"""What a program's loader prints is trusted by ldd(1), and read by root: it may contain any path."""

# pyright: reportPrivateUsage=false

import os
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.postgres import program_pages


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Offsets and inodes of the reads."""
    found: list[tuple[int, int]] = []
    pread = os.pread

    def seen(descriptor: int, size: int, offset: int) -> bytes:
        found.append((os.fstat(descriptor).st_ino, offset))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(program_pages.os, "pread", seen)
    return found


def test_a_fifo_is_not_opened(tmp_path: Path, read: list[tuple[int, int]]) -> None:
    fifo = tmp_path / "libfifo.so"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    before = fifo.stat().st_atime_ns
    opened: list[int] = []
    real = os.open

    def seen(path: Path, flags: int) -> int:
        opened.append(flags)
        return real(path, flags)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_pages.os, "open", seen)
        program_pages._read(fifo)
    os.close(writer)
    assert [bool(flags & os.O_PATH) for flags in opened] == [True]
    assert not read
    assert fifo.stat().st_atime_ns == before


@needs_root
def test_a_file_of_somebody_else_is_not_read(tmp_path: Path, read: list[tuple[int, int]]) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"library")
    program_pages._read(library)
    assert read == [(library.stat().st_ino, 0)]
    read.clear()
    os.chown(library, 65534, 65534)
    program_pages._read(library)
    assert not read


def test_reading_has_an_end(tmp_path: Path, read: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_pages, "_MOST_BYTES", 3 * program_pages._CHUNK_BYTES)
    library = tmp_path / "lib.so"
    with library.open("wb") as file:
        file.truncate(1 << 40)
    program_pages._read(library)
    assert len(read) == 3
    assert len(program_pages.libraries("\tlib => /lib/x.so (0x1)\n" * 5000)) == program_pages._MOST_LIBRARIES
