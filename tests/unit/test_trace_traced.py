"""Recording from a tracing build, with a thread in place of its backends."""

import mmap
import os
import struct
import subprocess
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tools import found, reason

from octavo import _core
from octavo.errors import HostError
from octavo.postgres.builds import recipe, traced
from octavo.postgres.builds.spec import BuildSpec
from octavo.trace import files
from octavo.trace.record import traced as recorder

_SERVER = 4711
_STREAM, _CHECKPOINT = 32, 16


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """The /proc of a server: its data directory."""
    (tmp_path / "data").mkdir()
    place = tmp_path / "proc" / str(_SERVER)
    place.mkdir(parents=True)
    (tmp_path / "proc" / "77").mkdir()
    (place / "cwd").symlink_to(tmp_path / "data")
    return tmp_path / "proc"


def _record(block: int, kind: int, rest: int, time: int) -> bytes:
    return struct.pack("<IIQ", block, kind << 24 | rest, time)


def _backend(data: Path, stop: threading.Event) -> Generator[None, None, None]:
    """Appends records as pg_trace.h does, while the control file permits it."""
    directory = data / recorder.DIRECTORY
    with (directory / recorder.CONTROL).open("rb") as file:
        control = mmap.mmap(file.fileno(), 24, prot=mmap.PROT_READ)
        while struct.unpack("<QQQ", control[:24])[0] == 0 and not stop.is_set():
            yield
        number = struct.unpack("<QQQ", control[:24])[1]
        with (directory / f"{number}.77.1").open("wb", buffering=0) as records:
            records.write(_record(1663, _STREAM, 3, 5 << 32 | 16384))
            for block in range(100):
                records.write(_record(block * 7 % 100, 0, 3, time.monotonic_ns()))
            records.write(_record(0, _CHECKPOINT, 0, time.monotonic_ns()))
            records.write(_record(14, 2, 3, time.monotonic_ns()))
            records.write(bytes(4096))
        control.close()


def test_what_backends_append_is_recorded_and_removed(tmp_path: Path, proc: Path) -> None:
    stop, out = threading.Event(), tmp_path / "t.octrace"
    with recorder.recording(_SERVER, proc) as recording:
        writer = _core.TraceWriter(out, 8192)
        began = time.monotonic_ns()
        backend = threading.Thread(target=lambda: [stop.wait(0.001) for _ in _backend(tmp_path / "data", stop)])
        backend.start()
        assert recorder.record(recording, writer, 0.5, began, lambda: None) == 0
        stop.set()
        backend.join()
        writer.finish()
    assert list((tmp_path / "data").iterdir()) == []
    found = files.summarize(out)
    assert (found["reads"], found["changes"], found["backends"]) == (100, 1, 1)
    assert found["streams"] == [(1663, 5, 16384, 0, 100)]
    assert found["events"] == {"checkpoint_start": (1, 1)}


def test_what_a_killed_recorder_left_is_removed(tmp_path: Path, proc: Path) -> None:
    left = tmp_path / "data" / recorder.DIRECTORY
    left.mkdir()
    (left / "1.5.9").write_bytes(bytes(100))
    (left / recorder.CONTROL).write_bytes(bytes(24))
    with recorder.recording(_SERVER, proc):
        assert [one.name for one in left.iterdir()] == [recorder.CONTROL]
    assert not left.exists()


def test_links_in_the_data_directory_lead_nowhere(tmp_path: Path, proc: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data" / recorder.DIRECTORY).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostError, match="octavo_trace"), recorder.recording(_SERVER, proc):
        pass
    (tmp_path / "data" / recorder.DIRECTORY).unlink()
    (tmp_path / "data" / recorder.DIRECTORY).mkdir()
    (tmp_path / "kept").write_bytes(b"as it was")
    (tmp_path / "data" / recorder.DIRECTORY / recorder.CONTROL).symlink_to(tmp_path / "kept")
    with pytest.raises(HostError, match="control"), recorder.recording(_SERVER, proc):
        pass
    (tmp_path / "data" / recorder.DIRECTORY / recorder.CONTROL).unlink()
    os.link(tmp_path / "kept", tmp_path / "data" / recorder.DIRECTORY / recorder.CONTROL)
    with pytest.raises(HostError, match="not a file of the server"), recorder.recording(_SERVER, proc):
        pass
    assert (tmp_path / "kept").read_bytes() == b"as it was"


def test_a_backend_that_could_not_go_on_is_an_error(tmp_path: Path, proc: Path) -> None:
    with pytest.raises(HostError, match="has room"), recorder.recording(_SERVER, proc) as recording:
        (tmp_path / "data" / recorder.DIRECTORY / f"{recording.number}.failed").touch()
        recording.take(_core.TraceWriter(tmp_path / "t.octrace", 8192))


def test_a_recorder_that_was_held_up_leaves_a_pause(
    tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backends have stopped by themselves meanwhile: what they did then is not in the trace, and the trace says so."""
    monkeypatch.setattr(recorder, "_LEASE_NANOSECONDS", 50_000_000)
    with recorder.recording(_SERVER, proc) as recording:
        writer = _core.TraceWriter(tmp_path / "t.octrace", 8192)
        assert recorder.record(recording, writer, 0.6, time.monotonic_ns(), lambda: None) == 0
        writer.finish()
    count, microseconds = files.summarize(tmp_path / "t.octrace")["events"]["pause_microseconds"]
    assert 1 <= count <= 2 and microseconds >= 150_000


def test_every_backend_has_its_turn(tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where more is written in a turn than may be read."""
    monkeypatch.setattr(recorder, "_MOST_A_TURN", 1 << 20)
    with recorder.recording(_SERVER, proc) as recording:
        writer = _core.TraceWriter(tmp_path / "t.octrace", 8192)
        records = _record(1663, _STREAM, 3, 5 << 32 | 16384) + ((3 << 20) // 16 - 1) * _record(1, 0, 3, 1)
        for number in range(3):
            (tmp_path / "data" / recorder.DIRECTORY / f"{recording.number}.77.{number}").write_bytes(records)
        for _ in range(3):
            assert not recording.take(writer)
        assert [file.offset for file in recording.files.values()] == 3 * [1 << 20]


def test_a_full_disk_of_the_trace_is_not_the_server_s(tmp_path: Path, proc: Path) -> None:
    writer = _core.TraceWriter(Path("/dev/full"), 8192)
    writer.describe("recorder", "a test")
    with (
        pytest.raises(HostError, match=r"t\.octrace cannot be written: No space left"),
        recorder.recording(_SERVER, proc),
        files.writing(tmp_path / "t.octrace"),
    ):
        writer.flush()
    assert list((tmp_path / "data").iterdir()) == []


def test_a_tracing_build_is_another_build() -> None:
    spec = BuildSpec("18")
    plain, tracing = (recipe.options(each, "18.6") for each in (spec, replace(spec, traced=True)))
    assert traced.COMPILER_FLAG not in " ".join(plain)
    assert f"-Dc_args={traced.COMPILER_FLAG}" in tracing
    assert any(option.endswith("--wrap=MarkBufferDirtyHint") for option in tracing)
    assert traced.MARK.decode() in traced.header()


def test_the_header_is_c(tmp_path: Path) -> None:
    """With stand-ins for PostgreSQL's declarations; with warnings as strict as in its own builds."""
    compiler = found("gcc")
    if compiler is None:
        pytest.skip(reason("gcc"))
    for name, text in {
        "utils/probes.h": "",
        "storage/bufmgr.h": """
            typedef int Buffer; typedef unsigned BlockNumber; typedef int ForkNumber;
            typedef struct { unsigned spcOid, dbOid, relNumber; } RelFileLocator;
            extern void BufferGetTag(Buffer, RelFileLocator *, ForkNumber *, BlockNumber *);
            #define PGDLLEXPORT __attribute__((visibility("default")))
            #define unconstify(type, value) ((type) (value))
        """,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pg_trace.h").write_text(traced.header())
    (tmp_path / "t.c").write_text("""
        #include <stdbool.h>
        #include <stdint.h>
        #include <string.h>
        typedef uint32_t uint32; typedef uint64_t uint64;
        #include "pg_trace.h"
        enum { IOCONTEXT_BULKREAD, IOCONTEXT_BULKWRITE, IOCONTEXT_NORMAL, IOCONTEXT_VACUUM };
        extern int IOContextForStrategy(void *strategy);
        #define InvalidBuffer 0
        #define REFCOUNT_ARRAY_ENTRIES 8
        typedef struct { Buffer buffer; int refcount; } PrivateRefCountEntry;
        static PrivateRefCountEntry PrivateRefCountArray[REFCOUNT_ARRAY_ENTRIES];
        typedef struct { unsigned spcOid, dbOid, relNumber; int forkNum; unsigned blockNum; } BufferTag;
        typedef struct { BufferTag tag; } BufferDesc;
        extern BufferDesc *GetBufferDescriptor(uint32 number);
        static inline unsigned BufTagGetRelNumber(const BufferTag *tag) { return tag->relNumber; }
        static inline ForkNumber BufTagGetForkNum(const BufferTag *tag) { return tag->forkNum; }
        extern void each(void *strategy);
        void each(void *strategy) {
            TRACE_POSTGRESQL_BUFFER_READ_START(0, 1, 2, 3, 4, -1);
            TRACE_POSTGRESQL_BUFFER_EXTEND_DONE(0, 2, 3, 4, -1, 8, 1);
            TRACE_POSTGRESQL_BUFFER_SYNC_START(1, 2);
            TRACE_POSTGRESQL_BUFFER_SYNC_DONE(1, 2, 3);
        }
    """)
    compiled = subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-Wdeclaration-after-statement",
         "-Wno-sign-compare", "-Wno-error=declaration-after-statement", "-c", "t.c", "-o", "t.o"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr


def test_files_of_backends_that_have_ended_are_let_go(tmp_path: Path, proc: Path) -> None:
    """Any number of backends may start and end."""
    out = tmp_path / "t.octrace"
    with recorder.recording(_SERVER, proc) as recording:
        writer = _core.TraceWriter(out, 8192)
        directory = tmp_path / "data" / recorder.DIRECTORY
        for backend in (77, 78):
            records = [_record(1663, _STREAM, 3, 5 << 32 | 16384), _record(backend, 0, 3, 1)]
            (directory / f"{recording.number}.{backend}.1").write_bytes(b"".join(records))
        assert recording.take(writer)
        assert [one.backend for one in recording.files.values()] == [77]
        assert sorted(one.name for one in directory.iterdir()) == [f"{recording.number}.77.1", recorder.CONTROL]
        writer.push_probes(b"", 0, 0)
        writer.finish()
    assert files.summarize(out)["reads"] == 2


def test_a_turn_reads_no_more_than_it_may(tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that writes as fast as it can does not occupy the recorder for ever; unread records are counted."""
    monkeypatch.setattr(recorder, "_MOST_A_TURN", 1 << 20)
    monkeypatch.setattr(recorder, "_REST_SECONDS", 0.0)
    with recorder.recording(_SERVER, proc) as recording:
        writer = _core.TraceWriter(tmp_path / "t.octrace", 8192)
        file = tmp_path / "data" / recorder.DIRECTORY / f"{recording.number}.77.1"
        count = (3 << 20) // 16 - 1
        file.write_bytes(_record(1663, _STREAM, 3, 5 << 32 | 16384) + count * _record(1, 0, 3, 1))
        assert not recording.take(writer)
        assert recording.unread() == (2 << 20) // 16
        assert recorder.record(recording, writer, 0.0, 0, lambda: None) == (1 << 20) // 16
        writer.finish()
    summary = files.summarize(tmp_path / "t.octrace")
    assert summary["events"]["lost"] == (1, (1 << 20) // 16)
    assert summary["reads"] == (2 << 20) // 16 - 1
