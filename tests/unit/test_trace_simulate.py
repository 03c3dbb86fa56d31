"""`octavo trace simulate`: servers of other sizes from a trace."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.unit.test_trace import skewed, trace_of
from typer.testing import CliRunner

from octavo import _core
from octavo.cli.app import app
from octavo.errors import UsageError
from octavo.trace.files import ignore_progress, summarize
from octavo.trace.render import summary_view
from octavo.trace.servers_view import servers_verdict, servers_view
from octavo.trace.simulate import SimulationRequest, limitations, recorded_seconds, simulate, sizes
from octavo.trace.surface import combine_limit

kB, MB = 1024, 1024**2


def _trace(tmp_path: Path, **settings: str) -> Path:
    return trace_of(tmp_path / "t.octrace", skewed(6000, 4000), settings={"shared_buffers": "4MB", **settings})


def _servers(path: Path, **asked: Any) -> list[dict[str, Any]]:
    return simulate(SimulationRequest(path, **asked))["servers"]


def test_shared_buffers_count_as_the_surface_does(tmp_path: Path) -> None:
    path = _trace(tmp_path)
    rings = (256 * kB, 16 * MB, 2 * MB)
    _, points = _core.trace_buffers(
        path,
        8192,
        [(8192, 4 * MB, *rings), (32768, 2 * MB, *rings)],
        rate=None,
        seed=1,
        threads=1,
        observe=ignore_progress,
    )
    for point in points:
        asked = {"data_blocks": (point["page_size"],), "shared_buffers": (point["shared_buffers"],)}
        (server,) = _servers(path, **asked)
        assert [server[name] for name in ("hits", "reads", "evictions")] == [
            point[name] for name in ("hits", "reads", "evictions")
        ]
        assert server["page_cache"] is None and server["device_reads"] is None


def test_a_larger_kernel_page_makes_larger_reads(tmp_path: Path) -> None:
    found = _servers(_trace(tmp_path), memory=(12 * MB,), kernel_pages=(4 * kB, 64 * kB), readahead=(0,))
    assert [server["device_bytes_per_read"] for server in found] == [8 * kB, 64 * kB]
    assert found[0]["hits"] == found[1]["hits"]
    assert all(server["page_cache_bytes"] == 8 * MB for server in found)


def test_more_memory_reads_less(tmp_path: Path) -> None:
    found = _servers(_trace(tmp_path), memory=(6 * MB, 12 * MB, 64 * MB))
    reads = [server["device_reads"] for server in found]
    assert reads == sorted(reads, reverse=True) and reads[0] > reads[-1]
    distinct = len(set(skewed(6000, 4000)))
    assert _servers(_trace(tmp_path), memory=(64 * MB,), readahead=(0,))[0]["device_reads"] == distinct


def test_smaller_blocks_have_two_ends(tmp_path: Path) -> None:
    found = _servers(_trace(tmp_path), data_blocks=(4 * kB, 8 * kB))
    assert [(server["data_block_bytes"], server["layout"]) for server in found] == [
        (4 * kB, "concentrated"), (4 * kB, "spread"), (8 * kB, "merged"),
    ]  # fmt: skip
    assert found[0]["hit_ratio"] > found[1]["hit_ratio"]


def test_rates_leave_pauses_out(tmp_path: Path) -> None:
    path = tmp_path / "t.octrace"
    writer = _core.TraceWriter(path, 8192)
    writer.setting("shared_buffers", "1MB")
    writer.push([(time * 1_000_000, 1, 1, 1, 1, 0, time, 0, 0) for time in range(11)])
    writer.event(4_000_000, "pause_microseconds", 6_000_000)
    writer.event(10_000_000, "transactions", 22)
    writer.finish()
    assert recorded_seconds(summarize(path)) == 4.0
    shown = io.StringIO()
    Console(file=shown, width=200).print(summary_view(summarize(path), 1))
    assert "in 10.0 s, 3 a second while recorded" in shown.getvalue()
    document = simulate(SimulationRequest(path, memory=(64 * MB,), readahead=(0,)))
    (server,) = document["servers"]
    assert (server["device_reads_per_second"], server["device_reads_per_transaction"]) == (11 / 4, 0.5)
    assert any("slices" in line for line in document["limitations"])


@pytest.mark.parametrize(
    ("version", "setting", "page_size", "expected"),
    [
        ("160009", "128kB", 8 * kB, 0), ("170001", "256kB", 8 * kB, 256 * kB), ("180006", "x", 8 * kB, 0),
        ("", "128kB", 8 * kB, 0),
        ("170001", "256kB", 1 * kB, 32 * kB), ("180006", "256kB", 1 * kB, 128 * kB),  # blocks of an iovec
    ],
)  # fmt: skip
def test_scans_are_combined_since_17(tmp_path: Path, version: str, setting: str, page_size: int, expected: int) -> None:
    summary = summarize(_trace(tmp_path, io_combine_limit=setting))
    summary["properties"]["server_version_num"] = version
    assert combine_limit(summary, page_size) == expected


def test_a_combined_read_is_no_larger_than_the_server_s_start_allows(tmp_path: Path) -> None:
    summary = summarize(_trace(tmp_path, io_combine_limit="1MB", io_max_combine_limit="128kB"))
    summary["properties"]["server_version_num"] = "180006"
    assert combine_limit(summary, 8 * kB) == 128 * kB


def test_the_terminal_names_the_server_that_reads_least(tmp_path: Path) -> None:
    document = simulate(
        SimulationRequest(_trace(tmp_path), (2 * MB, 4 * MB), memory=(64 * MB,), kernel_pages=(4096, 65536))
    )
    best = min(document["servers"], key=lambda server: server["device_reads"])
    assert servers_verdict(document).startswith("Fewest device reads: 8 kB blocks, ")
    assert f"{best['device_reads']:,} (most: " in servers_verdict(document)
    assert servers_view(document)
    assert any("no changes" in line for line in document["limitations"])
    json.dumps(document, allow_nan=False)


def test_what_is_wrong_is_a_line(tmp_path: Path) -> None:
    for option, text, expected in (
        ("--data-block", "3kB", "power of two from 1kB to 32kB"),
        ("--kernel-page", "2kB", "power of two from 4kB to 64kB"),
        ("--shared-buffers", "many", "not a size"),
        ("--shared-buffers", "1kB", "from 128kB"),
    ):
        allowed = {"--data-block": (1024, 32768), "--kernel-page": (4096, 65536)}.get(option, ())
        with pytest.raises(UsageError, match=expected):
            sizes(option, text, allowed, least=128 * kB)
    with pytest.raises(UsageError, match="no room for a page cache"):
        _servers(_trace(tmp_path), memory=(4 * MB,))
    with pytest.raises(UsageError, match="does not contain shared_buffers"):
        simulate(SimulationRequest(trace_of(tmp_path / "bare", [1, 2])))
    with pytest.raises(UsageError, match="more than 256"):
        _servers(_trace(tmp_path), shared_buffers=tuple(MB * (4 + turn) for turn in range(300)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"full_page_writes": "off", "data_checksums": "off"}, "full_page_writes is off"),
        ({"full_page_writes": "on", "data_checksums": "off"}, "hint bits count as changes"),
        ({"full_page_writes": "on", "data_checksums": "off", "wal_log_hints": "on"}, None),
        ({"full_page_writes": "on", "data_checksums": "on", "wal_log_hints": "off"}, None),
    ],
)
def test_images_that_the_server_does_not_log_are_named(settings: dict[str, str], expected: str | None) -> None:
    with_changes: Any = {
        "page_size": 8192, "reads": 1, "extends": 0, "changes": 1, "full_page_images": 0, "events": {},
        "settings": settings, "missing": {"accesses": 0, "bytes": 0, "is_cut": False},
    }  # fmt: skip
    found = [line for line in limitations(with_changes, []) if "images" in line]
    assert (expected is None and not found) or (expected and expected in found[0])
    with_changes["changes"] = 0
    no_changes = [line for line in limitations(with_changes, []) if "images" in line]
    assert len(no_changes) == 1 and "no changes of pages" in no_changes[0]


def test_the_command_line_speaks(tmp_path: Path) -> None:
    arguments = ["trace", "simulate", str(_trace(tmp_path)), "--memory", "64MB", "--data-block", "8kB,32kB"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0 and shown.stdout.startswith("Fewest device reads: 32 kB blocks, "), shown.output
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80 and "…" not in shown.stdout
    document = json.loads(CliRunner().invoke(app, [*arguments, "--format", "json"]).stdout)
    assert document["schema_version"] == 1
    assert [server["data_block_bytes"] for server in document["servers"]] == [8192, 32768]
