"""The segments that a killed server has left: never those of another server, even if no process maps them now, nor
those of other programs."""

# pyright: reportPrivateUsage=false

import os
import struct
from pathlib import Path

import pytest

from octavo.postgres import shared_memory_left

_CONTROL = 0x9A503D32


def _control(*handles: int) -> bytes:
    """A control segment as in 14 and later: magic, items, maximum of items, then for each item handle and count, its
    position in the main segment, and more."""
    items = (struct.pack("=IIQQQQ", handle, 2, 0, 0, 0, 0) for handle in handles)
    return struct.pack("=IIII", _CONTROL, len(handles), 64, 0) + b"".join(items)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces /dev/shm; the names of mapped segments are in `mapped`, beside it."""
    place = tmp_path / "shm"
    place.mkdir()

    def mapped(owner: int) -> set[str]:
        assert owner == os.getuid()
        return {"PostgreSQL.900"}

    monkeypatch.setattr(shared_memory_left, "_DIRECTORY", place)
    monkeypatch.setattr(shared_memory_left, "_YOUNGEST_SECONDS", 0.0)
    monkeypatch.setattr(shared_memory_left, "_mapped", mapped)
    return place


def _left() -> list[str]:
    return sorted(shared_memory_left._left(os.getuid(), 0))


def test_a_dead_servers_segments_are_those_that_its_control_segment_names(directory: Path) -> None:
    (directory / "PostgreSQL.7").write_bytes(_control(4_000_000_000, 12))
    for name in ("PostgreSQL.4000000000", "PostgreSQL.12"):
        (directory / name).write_bytes(bytes(4096))
    # A running server's: its control segment is mapped, and at the moment no process maps its statistics.
    (directory / "PostgreSQL.900").write_bytes(_control(902))
    (directory / "PostgreSQL.902").write_bytes(bytes(4096))
    (directory / "PostgreSQL.13").write_bytes(b"")
    (directory / "other").write_bytes(_control(902))
    assert _left() == ["PostgreSQL.12", "PostgreSQL.4000000000", "PostgreSQL.7"]


def test_without_a_control_segment_nothing_is_a_dead_servers(directory: Path) -> None:
    (directory / "PostgreSQL.12").write_bytes(struct.pack("=I", 13) * 100)
    (directory / "PostgreSQL.13").write_bytes(bytes(4096))
    (directory / "link").write_bytes(_control(12, 13))
    (directory / "PostgreSQL.14").symlink_to(directory / "link")
    os.mkfifo(directory / "PostgreSQL.15")
    assert _left() == []


def test_a_control_segment_that_ends_early_names_what_it_has(directory: Path) -> None:
    (directory / "PostgreSQL.7").write_bytes(_control(12)[:21])
    (directory / "PostgreSQL.12").write_bytes(bytes(4096))
    assert _left() == ["PostgreSQL.12", "PostgreSQL.7"]


def test_a_server_that_starts_while_processes_are_looked_through_keeps_its_segments(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in no list of processes that was made before, and by the end its segments are old enough."""
    (directory / "PostgreSQL.7").write_bytes(_control(12))
    (directory / "PostgreSQL.12").write_bytes(bytes(4096))

    def mapped(_: int) -> set[str]:
        (directory / "PostgreSQL.800").write_bytes(_control(801))
        (directory / "PostgreSQL.801").write_bytes(bytes(4096))
        return set()

    monkeypatch.setattr(shared_memory_left, "_mapped", mapped)
    assert _left() == ["PostgreSQL.12", "PostgreSQL.7"]


def test_what_a_server_made_before_it_died_is_left_too(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "PostgreSQL.7").write_bytes(_control(12))
    (directory / "PostgreSQL.13").write_bytes(bytes(4096))

    def mapped(_: int) -> set[str]:
        (directory / "PostgreSQL.7").write_bytes(_control(12, 13))
        return set()

    monkeypatch.setattr(shared_memory_left, "_mapped", mapped)
    assert _left() == ["PostgreSQL.13", "PostgreSQL.7"]


def test_system_v_segments_of_other_programs_are_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root they are of the same user, and may hold data although nothing is attached to them."""
    gone, now, uid = 2**22 + 1, 1_800_000_000, os.getuid()
    segments = [(1, "600", 56), (2, "600", 150 * 1024**2), (3, "644", 56), (4, "600", 4096), (5, "1600", 56)]
    head = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap"
    rows = [
        f"{0:10} {number:10} {mode:>5} {size:21} {gone:5} {gone:5} {0:6} {uid:5} 0 {uid} 0 0 0 {now} 0 0"
        for number, mode, size in segments
    ]
    listed = tmp_path / "shm"
    listed.write_text("\n".join([head, *rows]) + "\n")
    monkeypatch.setattr(shared_memory_left, "_SEGMENTS", listed)
    assert [one.number for one in shared_memory_left._segments(now, uid)] == [1, 2]
    assert shared_memory_left._segments(now + 1, uid) == shared_memory_left._segments(now, uid + 1) == []
