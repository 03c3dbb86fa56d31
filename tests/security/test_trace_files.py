"""Traces that root writes into a directory whose owner replaces them by links while they are written."""

# pyright: reportPrivateUsage=false

from pathlib import Path
from typing import Any

import pytest

from octavo.errors import UsageError
from octavo.trace import files
from octavo.trace.record import recorder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target"
    path.write_text("root's")
    return path


def test_a_recording_is_written_to_the_file_that_was_made(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "shop.octrace"
    write = recorder._core.TraceWriter

    def swapped(path: Path, page_size: int) -> Any:
        out.rename(tmp_path / "moved")
        out.symlink_to(target)
        return write(path, page_size)

    monkeypatch.setattr(recorder._core, "TraceWriter", swapped)
    writer = recorder._new_trace(out, 8192)
    writer.finish()
    assert target.read_text() == "root's"
    assert files.summarize(tmp_path / "moved")["page_size"] == 8192
    with pytest.raises(UsageError, match="already exists"):
        recorder._new_trace(out, 8192)


def test_a_converted_trace_is_written_to_the_file_that_was_made(tmp_path: Path, target: Path) -> None:
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with files.replacing(tmp_path / "out.csv") as beside:
        (planted,) = tmp_path.glob(".*.new")
        planted.unlink()
        planted.symlink_to(target)
        beside.write_text("a trace")
    assert target.read_text() == "root's"
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
