"""The WAL in a trace: by intervals, by kinds, and in a part of the trace."""

from pathlib import Path
from typing import Any

import pytest

from octavo import _core
from octavo.errors import HostError
from octavo.instruments.target import Rows
from octavo.trace import files
from octavo.trace.record import wal as recorder
from octavo.trace.record.wal import WalMeter
from octavo.trace.wal import Kind, Written, commits, written

_UPDATE = "Heap/HOT_UPDATE"


class _Server:
    """Answers like a server whose counters are set."""

    def __init__(self, **counters: int) -> None:
        self.counters, self.has_inspect, self.has_blocks = counters, False, False
        self.checkpoint = {"position": 10**9 - 4711, "seconds": 12.5}

    def query(self, name: str) -> Rows:
        if name == "traced_wal_inspect":
            return [{"schema": "public", "has_blocks": self.has_blocks}] if self.has_inspect else []
        if name == "traced_checkpoint":
            return [dict(self.checkpoint)]
        assert name == "traced_wal"
        return [dict(self.counters)]

    def add(self, position: int, records: int, full_page_images: int, bytes: int) -> None:
        more = {"position": position, "records": records, "full_page_images": full_page_images, "bytes": bytes}
        self.counters = {name: count + more[name] for name, count in self.counters.items()}


def _server() -> _Server:
    return _Server(position=10**9, records=50, full_page_images=7, bytes=9000)


def _kinds(_connection: object, _schema: str, start: int, end: int) -> list[dict[str, Any]]:
    """For both intervals together, or for one of them: the first one has all updates and three commits of five."""
    first, last = start < 10**9 + 10_000, end > 10**9 + 10_000
    rows = [
        {"kind": "Heap/INSERT", "records": first + last, "bytes": 450 * (first + last), "images": 0},
        {"kind": "Transaction/COMMIT", "records": 3 * first + 2 * last, "bytes": 100, "images": 0},
        {"kind": _UPDATE, "records": 10 * first, "bytes": 12_000 * first, "images": 11_000 * first},
    ]
    return [row for row in rows if row["records"]]


def _no_images(*_arguments: object) -> dict[str, int]:
    return {}


def _recorded(path: Path, server: _Server) -> str | None:
    writer = _core.TraceWriter(path, 8192)
    meter = WalMeter(server.query, writer, 0)
    server.add(10_000, 6, 2, 9000)
    meter.take(1_000_000)
    server.add(5_000, 6, 0, 4000)
    why: str | None = meter.finish(None, 2_500_000)  # type: ignore[arg-type]
    writer.push([(1, 1, 1663, 5, 16384, 0, 0, 0, 0)])
    writer.finish()
    return why


def test_stretches_and_kinds_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_kinds", _kinds)
    server, path = _server(), tmp_path / "t.octrace"
    server.has_inspect = True
    assert _recorded(path, server) is None
    found = written(files.summarize(path))
    kinds = (Kind(_UPDATE, 10, 12_000, 11_000), Kind("Heap/INSERT", 2, 900, 0), Kind("Transaction/COMMIT", 5, 200, 0))
    assert found == Written(2.5, 12, 2, 13_000, 11_000, 15_000, kinds)
    assert commits(files.summarize(path)) == [(0, 0), (1_000_000, 3), (2_500_000, 5)]


def test_where_a_stretch_cannot_be_read_kinds_are_those_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kinds(connection: object, schema: str, start: int, end: int) -> list[dict[str, Any]]:
        if start > 10**9:
            raise HostError("WAL start LSN must be less than end LSN")
        return _kinds(connection, schema, start, end)

    monkeypatch.setattr(recorder, "_kinds", kinds)
    server, path = _server(), tmp_path / "t.octrace"
    server.has_inspect = True
    assert _recorded(path, server) is None
    assert commits(files.summarize(path)) == [(0, 0), (2_500_000, 5)]


def test_stretches_are_read_for_a_limited_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_kinds", _kinds)
    monkeypatch.setattr(recorder, "_images", _no_images)
    monkeypatch.setattr(recorder, "MOST_SECONDS", -1.0)
    server, path = _server(), tmp_path / "t.octrace"
    server.has_inspect = server.has_blocks = True
    assert "are not counted: reading the WAL again took longer" in (_recorded(path, server) or "")
    assert commits(files.summarize(path)) == [(0, 0), (2_500_000, 5)]


def test_in_a_long_recording_several_stretches_have_their_kinds_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interval without WAL is part of the next one; the others are combined from the end on."""

    def kinds(_connection: object, _schema: str, start: int, end: int) -> list[dict[str, Any]]:
        return [{"kind": "Transaction/COMMIT", "records": (end - start) // 10, "bytes": 34, "images": 0}]

    monkeypatch.setattr(recorder, "_kinds", kinds)
    monkeypatch.setattr(recorder, "MOST_STRETCHES", 2)
    server, path = _server(), tmp_path / "t.octrace"
    server.has_inspect = True
    writer = _core.TraceWriter(path, 8192)
    meter = WalMeter(server.query, writer, 0)
    for second, growth in enumerate((10, 0, 20, 40), start=1):
        server.add(growth, 1, 0, growth)
        meter.take(second * 1_000_000)
    server.add(80, 1, 0, 80)
    assert meter.finish(None, 5_000_000) is None  # type: ignore[arg-type]
    writer.finish()
    assert commits(files.summarize(path)) == [(0, 0), (3_000_000, 3), (5_000_000, 15)]


def _properties(path: Path) -> dict[str, str]:
    told = files.summarize(path)["properties"]
    return {name: value for name, value in told.items() if name.startswith("checkpoint_")}


def test_the_checkpoint_before_the_trace_is_the_last_one_that_began_before_it(tmp_path: Path) -> None:
    """One was running when the recording began, and is known once it has ended; another one began afterwards."""
    server, path = _server(), tmp_path / "t.octrace"
    writer = _core.TraceWriter(path, 8192)
    meter = WalMeter(server.query, writer, 0)
    server.checkpoint = {"position": 10**9 - 900, "seconds": 5.25}
    meter.take(2_000_000)
    server.checkpoint = {"position": 10**9 + 50, "seconds": 1.0}
    meter.take(3_000_000)
    writer.finish()
    assert _properties(path) == {"checkpoint_wal_bytes": "900", "checkpoint_seconds": "3.250"}


def test_what_was_logged_before_the_trace_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kinds(_connection: object, _schema: str, start: int, end: int) -> list[dict[str, Any]]:
        if end > 10**9:
            return _kinds(None, "", start, end)
        assert (start, end) == (10**9 - 4711, 10**9)
        return [
            {"kind": "Transaction/COMMIT", "records": 17, "bytes": 578, "images": 0},
            {"kind": _UPDATE, "records": 3, "bytes": 9000, "images": 8000},
        ]

    def images(_connection: object, _schema: str, start: int, end: int) -> dict[str, int]:
        if start > 10**9:
            return {"Heap/INSERT": 1}
        return {_UPDATE: 2} if end > 10**9 else {_UPDATE: 1, "Heap/INSERT": 1}

    monkeypatch.setattr(recorder, "_kinds", kinds)
    monkeypatch.setattr(recorder, "_images", images)
    server, path = _server(), tmp_path / "t.octrace"
    server.has_inspect = server.has_blocks = True
    assert _recorded(path, server) is None
    assert _properties(path) == {"checkpoint_wal_bytes": "4711", "checkpoint_seconds": "12.500",
                                 "checkpoint_commits": "17", "checkpoint_image_bytes": "8000",
                                 "checkpoint_images": "2"}  # fmt: skip
    found = written(files.summarize(path))
    assert found is not None and found.images == 3  # and not the two of the server's counter, which is late


@pytest.mark.parametrize(("most", "images"), [(12_000, 3), (9_000, 2)])
def test_images_are_counted_unless_a_stretch_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, images: int
) -> None:
    """The server's counter has two; the stretches have 10,000 and 5,000 bytes."""

    def counted(_connection: object, _schema: str, start: int, end: int) -> dict[str, int]:
        return {} if end <= 10**9 else {_UPDATE: 2} if start < 10**9 + 10_000 else {"Heap/INSERT": 1}

    monkeypatch.setattr(recorder, "_kinds", _kinds)
    monkeypatch.setattr(recorder, "_images", counted)
    monkeypatch.setattr(recorder, "MOST_COUNTED", most)
    server, path = _server(), tmp_path / "t.octrace"
    server.has_inspect = server.has_blocks = True
    assert _recorded(path, server) is None
    found = written(files.summarize(path))
    assert found is not None and found.images == images


def test_wal_that_a_checkpoint_removed_leaves_the_kinds_of_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kinds(_connection: object, _schema: str, start: int, end: int) -> list[dict[str, Any]]:
        if end > 10**9:
            return _kinds(None, "", start, end)
        raise HostError("could not find a valid record after 0/3B9AB899")

    monkeypatch.setattr(recorder, "_kinds", kinds)
    server, path = _server(), tmp_path / "t.octrace"
    server.has_inspect = True
    assert "before the recording" in (_recorded(path, server) or "")
    found = written(files.summarize(path))
    assert found is not None and len(found.kinds) == 3 and "checkpoint_commits" not in _properties(path)


def test_without_the_extension_kinds_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "t.octrace"
    assert "CREATE EXTENSION pg_walinspect" in (_recorded(path, _server()) or "")
    found = written(files.summarize(path))
    assert found is not None and (found.image_bytes, found.kinds, found.images) == (None, (), 2)


def test_more_than_a_gigabyte_is_not_read_again(tmp_path: Path) -> None:
    writer, server = _core.TraceWriter(tmp_path / "t.octrace", 8192), _server()
    server.has_inspect = True
    meter = WalMeter(server.query, writer, 0)
    server.add(recorder.MOST_BYTES + 1, 1, 1, 1)
    assert "not read" in (meter.finish(None, 1) or "")  # type: ignore[arg-type]


def test_counters_that_were_reset_make_no_stretch(tmp_path: Path) -> None:
    writer, server = _core.TraceWriter(tmp_path / "t.octrace", 8192), _server()
    meter = WalMeter(server.query, writer, 0)
    server.counters["records"] = 0
    meter.take(5)
    server.add(100, 1, 0, 90)
    meter.take(9)
    writer.finish()
    (stretch,) = files.summarize(tmp_path / "t.octrace")["wal"]
    assert (stretch["start"], stretch["end"], stretch["records"], stretch["growth_bytes"]) == (5, 9, 1, 100)


def test_a_part_of_a_trace_has_the_stretches_that_lie_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_kinds", _kinds)
    server, whole, part = _server(), tmp_path / "t.octrace", tmp_path / "part.octrace"
    server.has_inspect = True
    _recorded(whole, server)
    files.cut(whole, part, 0.0, 2.0, None)
    found = written(files.summarize(part))
    assert found is not None and (found.seconds, found.bytes) == (1.0, 9000)
    assert [(kind.name, kind.records) for kind in found.kinds] == [
        (_UPDATE, 10), ("Heap/INSERT", 1), ("Transaction/COMMIT", 3),
    ]  # fmt: skip


def test_a_part_of_a_long_trace_has_the_stretches_whose_kinds_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kinds of two seconds are known together: of three seconds those of the first two are known."""

    def kinds(_connection: object, _schema: str, start: int, end: int) -> list[dict[str, Any]]:
        return [{"kind": _UPDATE, "records": end - start, "bytes": 10, "images": 10}]

    monkeypatch.setattr(recorder, "_kinds", kinds)
    monkeypatch.setattr(recorder, "MOST_STRETCHES", 2)
    server, whole, part = _server(), tmp_path / "t.octrace", tmp_path / "part.octrace"
    server.has_inspect = True
    writer = _core.TraceWriter(whole, 8192)
    meter = WalMeter(server.query, writer, 0)
    for second in (1, 2, 3):
        server.add(100, 1, 1, 100)
        meter.take(second * 1_000_000)
    server.add(100, 1, 1, 100)
    meter.finish(None, 4_000_000)  # type: ignore[arg-type]
    writer.push([(1, 1, 1663, 5, 16384, 0, 0, 0, 0)])
    writer.finish()
    files.cut(whole, part, 0.0, 3.0, None)
    found = written(files.summarize(part))
    assert found is not None and (found.seconds, found.growth_bytes, found.kinds[0].records) == (2.0, 200, 200)


def test_a_recording_that_ends_without_wal_has_its_kinds_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_kinds", _kinds)
    server, path = _server(), tmp_path / "t.octrace"
    server.has_inspect = True
    writer = _core.TraceWriter(path, 8192)
    meter = WalMeter(server.query, writer, 0)
    server.add(10_000, 6, 2, 9000)
    meter.take(1_000_000)
    assert meter.finish(None, 2_500_000) is None  # type: ignore[arg-type]
    writer.finish()
    found = written(files.summarize(path))
    assert found is not None and found.seconds == 2.5
    assert commits(files.summarize(path)) == [(0, 0), (2_500_000, 3)]


def test_a_trace_without_wal_says_nothing_of_it(tmp_path: Path) -> None:
    writer = _core.TraceWriter(tmp_path / "t.octrace", 8192)
    writer.push([(1, 1, 1663, 5, 16384, 0, 0, 0, 0)])
    writer.finish()
    assert written(files.summarize(tmp_path / "t.octrace")) is None
