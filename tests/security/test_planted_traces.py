"""Traces from others: what a trace claims about its server becomes sizes, counts and divisors of a simulation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.test_endless import in_time
from tests.unit.predict.traces import made

from octavo import _core
from octavo.errors import HostError, OctavoError, UsageError
from octavo.predict.predict import Request, predict
from octavo.trace import files
from octavo.trace.plausible import plausible
from octavo.trace.simulate import SimulationRequest, simulate
from octavo.trace.surface import SurfaceRequest, surface

_NINES = "9" * 29
# By name, values that no server has.
_SETTINGS = {
    "shared_buffers": ("16385TB", f"{_NINES}TB", "0B", "1B"),
    "max_connections": ("-74", "0", _NINES, "abc", "٣"),
    "effective_io_concurrency": ("-999999999", _NINES),
    "io_combine_limit": (f"{_NINES}TB", "0B"),
    "io_max_combine_limit": (f"{_NINES}TB", "0B"),
    "vacuum_buffer_usage_limit": (f"{_NINES}TB",),
    "bgwriter_delay": ("0ms", f"{_NINES}d"),
    "bgwriter_lru_maxpages": ("-1", _NINES),
    "bgwriter_lru_multiplier": ("nan", "inf", "-1", "1e308"),
    "bgwriter_flush_after": (f"{_NINES}TB", "0B", "-1"),
    "checkpoint_flush_after": (f"{_NINES}TB", "0B", "-1"),
    "checkpoint_timeout": ("0s", "0.000001s"),
    "checkpoint_completion_target": ("nan", "-1", "2"),
    "max_wal_size": ("0B", f"{_NINES}TB"),
    "min_wal_size": ("0B", f"{_NINES}TB"),
    "wal_segment_size": ("0B", f"{_NINES}TB"),
    "wal_block_size": ("0", "24", "1", "3000"),
}
_PROPERTIES = {
    "server_version_num": ("9" * 400, "-1"),
    "kernel_page_bytes": ("0", "1", "3", "562949953421312"),
    "readahead_bytes": ("999999999999999",),
    "work_clients": ("1e17",),
    "processors": ("1e17", "0.001"),
    "host_memory_bytes": ("1e17", "1"),
}
_CASES = [
    *(("setting", name, text) for name, texts in _SETTINGS.items() for text in texts),
    *(("property", name, text) for name, texts in _PROPERTIES.items() for text in texts),
]


def _saying(kind: str, name: str, text: str, path: Path) -> Path:
    """A trace whose server claims this, which is not believed."""
    facts, settings = ({name: text}, {}) if kind == "property" else ({}, {name: text})
    made(path, transactions=600, pages=100, writes=True, facts=facts, settings=settings)
    there = plausible(files.summarize(path))
    assert name not in there["properties" if kind == "property" else "settings"]
    return path


def test_what_no_server_has_is_as_if_it_was_not_said(tmp_path: Path) -> None:
    for case in _CASES:
        _saying(*case, tmp_path / "t.octrace")


@pytest.mark.parametrize(("kind", "name", "text"), {case[1]: case for case in _CASES}.values())
def test_nothing_is_made_of_what_no_server_has(kind: str, name: str, text: str, tmp_path: Path) -> None:
    path = _saying(kind, name, text, tmp_path / "t.octrace")
    if name != "shared_buffers":
        memory = (64 * 1024**2,)
        simulated = SimulationRequest(path, data_blocks=(4096, 8192), memory=memory)
        in_time(lambda: simulate(simulated))
        in_time(lambda: surface(SurfaceRequest(path, page_sizes=(4096, 8192))))
    try:
        in_time(lambda: predict(Request(path, data_blocks=(4096, 8192), checkpoint=5)))
    except HostError:  # it contains too little
        assert name in ("shared_buffers", "processors", "work_clients")


def test_the_fill_of_a_relation_is_no_loop_bound(tmp_path: Path) -> None:
    path = tmp_path / "t.octrace"
    writer = _core.TraceWriter(path, 8192)
    writer.setting("shared_buffers", "8MB")
    writer.relation(
        1, 1, 7, kind="r", blocks=2**64 - 1, tuples=2**64 - 1, tuple_bytes=0, fillfactor=2**32 - 1, name="t"
    )
    writer.push([(second * 1_000_000, 1, 1, 1, 7, 0, second, 0, 0) for second in range(600)])
    writer.event(1, "transactions", 600)
    writer.finish()
    in_time(lambda: predict(Request(path, data_blocks=(4096, 32768), checkpoint=5)))


# In a process with this limit of memory: without the limit it used all of the machine's.
_LIMITED = """
import resource, sys
from pathlib import Path
from octavo.trace.simulate import SimulationRequest, simulate
from octavo.trace.surface import SurfaceRequest, surface
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
path = Path(sys.argv[1])
found = simulate(SimulationRequest(path, data_blocks=(1024, 8192), threads=1))
surface(SurfaceRequest(path, page_sizes=(8192,), threads=1))
print({one["evictions"] for one in found["servers"]})
"""


def test_buffers_that_nobody_used_take_no_memory(tmp_path: Path) -> None:
    """The number in the trace was allocated at once, for each simulated server: 16 TB of buffers are gigabytes."""
    path = made(tmp_path / "t.octrace", transactions=600, pages=100, writes=True, settings={"shared_buffers": "16TB"})
    done = subprocess.run([sys.executable, "-c", _LIMITED, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr[-2000:]) == (0, "{0}\n", "")


def test_checkpoints_and_rounds_without_end_cost_what_is_dirty(tmp_path: Path) -> None:
    """Each checkpoint visited all of 512 million buffers, and so did each round of the background writer."""
    path = tmp_path / "t.octrace"
    writer = _core.TraceWriter(path, 8192)
    writer.setting("shared_buffers", "512GB")
    for number in range(2000):
        writer.push([(number * 10**9, 1, 1, 1, 7, 0, number, 2 * (number % 2), 0)])
        writer.event(number * 10**9, "checkpoint_start", 1)
    writer.finish()
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, path], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr[-2000:]) == (0, "{0}\n", "")


def test_a_trace_is_no_fifo_and_no_link_of_others(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    target = made(tmp_path / "t.octrace", transactions=5)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "link").symlink_to(target)
    (tmp_path / "own").symlink_to(target)
    (tmp_path / "shared").chmod(0o1777)
    for path in (tmp_path / "fifo", tmp_path / "shared" / "link", tmp_path):
        for work in (
            lambda path=path: files.summarize(path),
            lambda path=path: files.cut(path, tmp_path / "out", 0, None, None),
            lambda path=path: files.import_(path, "csv", tmp_path / "out", 8192),
            lambda path=path: files.export(path, "csv", tmp_path / "out"),
            lambda path=path: surface(SurfaceRequest(path)),
        ):
            with pytest.raises(HostError, match=f"^{path} cannot be read: "):
                in_time(work)
    assert not (tmp_path / "out").exists()
    assert files.summarize(tmp_path / "own")["reads"] == 5


def test_what_was_opened_is_read_whatever_has_its_name_then(tmp_path: Path) -> None:
    path, other = made(tmp_path / "t.octrace", transactions=5), made(tmp_path / "other", transactions=7)
    with files.reading(path) as opened:
        other.rename(path)
        assert _core.trace_summary(opened, files.ignore_progress)["reads"] == 5
    with pytest.raises(UsageError, match=f"^{path}: "), files.reading(path):
        raise OverflowError("int too big to convert")
    with pytest.raises(OctavoError):
        files.summarize(tmp_path / "missing")
