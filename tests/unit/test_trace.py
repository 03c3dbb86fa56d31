"""Traces from Python: files, surfaces, the page, and the simulator compared with libCacheSim."""

import errno
import json
import os
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from typer.testing import CliRunner

from octavo import _core
from octavo.cli.app import app
from octavo.errors import HostError, UsageError
from octavo.trace import files
from octavo.trace.files import ignore_progress
from octavo.trace.page import render
from octavo.trace.plausible import plausible
from octavo.trace.render import summary_view, surface_view, verdict
from octavo.trace.surface import SurfaceRequest, knee, rings, surface

MB = 1024**2


def trace_of(
    path: Path, blocks: Sequence[int], *, page_size: int = 8192, settings: dict[str, str] | None = None
) -> Path:
    """A trace of one relation, one access per millisecond."""
    writer = _core.TraceWriter(path, page_size)
    writer.describe("recorder", "a test")
    for name, value in (settings or {}).items():
        writer.setting(name, value)
    writer.relation(1663, 5, 16384, kind="r", blocks=max(blocks, default=0) + 1, tuples=1000, tuple_bytes=100,
                    fillfactor=100, name="<b>accounts</b>")  # fmt: skip
    writer.push([(time * 1000, time % 3, 1663, 5, 16384, 0, block, 0, 0) for time, block in enumerate(blocks)])
    writer.event(len(blocks) * 1000, "transactions", 7)
    writer.finish()
    return path


def skewed(count: int, pages: int, seed: int = 1) -> list[int]:
    """Blocks of a skewed distribution."""
    draw = random.Random(seed)
    return [int(draw.random() ** 3 * pages) for _ in range(count)]


def test_what_is_written_is_summarized(tmp_path: Path) -> None:
    path = trace_of(tmp_path / "t.octrace", [1, 2, 1], settings={"shared_buffers": "128MB"})
    found = files.summarize(path)
    assert (found["page_size"], found["reads"], found["backends"], found["times"]) == (8192, 3, 3, (0, 2000))
    assert found["settings"] == {"shared_buffers": "128MB"}
    assert found["streams"] == [(1663, 5, 16384, 0, 3)]
    assert found["relations"][0]["name"] == "<b>accounts</b>"
    assert found["events"] == {"transactions": (1, 7)}
    assert found["missing"] == {"accesses": 0, "bytes": 0, "is_cut": False}


def test_a_cut_file_gives_what_is_whole_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.octrace"
    writer = _core.TraceWriter(path, 8192)
    for part in range(3):
        writer.push([(part, 1, 1, 1, 1, 0, block, 0, 0) for block in range(100)])
        writer.flush()
    content = path.read_bytes()  # never finished, as after a kill
    found = files.summarize(path)
    assert (found["reads"], found["missing"]["is_cut"]) == (300, True)
    path.write_bytes(content[:-1])
    assert files.summarize(path)["reads"] == 200
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 255
    path.write_bytes(damaged)
    found = files.summarize(path)
    assert (found["reads"], found["missing"]["accesses"]) == (200, 100)
    assert files.lost_share(found) == pytest.approx(1 / 3)


def test_a_part_of_a_trace_is_a_trace(tmp_path: Path) -> None:
    path = trace_of(tmp_path / "t.octrace", list(range(100)))
    accesses, missing = files.cut(path, tmp_path / "part", 0.02, 0.05, None)
    assert (accesses, missing["accesses"]) == (30, 0)
    assert files.summarize(tmp_path / "part")["times"] == (20_000, 49_000)
    assert files.cut(path, tmp_path / "none", 0, None, 99)[0] == 0
    assert files.summarize(tmp_path / "none")["properties"]["cut_relation"] == "99"


def test_a_later_part_of_a_trace_knows_of_no_checkpoint_before_it(tmp_path: Path) -> None:
    writer = _core.TraceWriter(tmp_path / "t.octrace", 8192)
    writer.describe("checkpoint_seconds", "7.000")
    writer.describe("recorder", "a test")
    writer.push([(second * 1_000_000, 1, 1, 1, 1, 0, second, 0, 0) for second in range(9)])
    writer.finish()
    for start, expected in ((0.0, {"checkpoint_seconds", "recorder"}), (3.0, {"recorder"})):
        files.cut(tmp_path / "t.octrace", tmp_path / "part", start, None, None)
        assert files.summarize(tmp_path / "part")["properties"].keys() == expected


def test_a_full_disk_is_the_target_s(tmp_path: Path) -> None:
    source, target = trace_of(tmp_path / "t.octrace", [1]), tmp_path / "t.csv"
    with (
        pytest.raises(HostError, match=r"t\.csv cannot be written: No space left"),
        files.reading(source),
        files.replacing(target),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.octrace"]


@pytest.mark.parametrize("format", ["csv", "oracle-general", "iolog"])
def test_other_formats_keep_the_pages(tmp_path: Path, format: str) -> None:
    blocks = skewed(500, 90)
    path = trace_of(tmp_path / "t.octrace", blocks)
    files.export(path, format, tmp_path / "other")
    assert files.import_(tmp_path / "other", format, tmp_path / "again", 8192) == 500
    both = [
        _core.trace_policy(each, 8192, 8192, "lru", [1, 10, 40], threads=1, observe=ignore_progress)[1]
        for each in (path, tmp_path / "again")
    ]
    assert both[0] == both[1]
    assert not [left for left in tmp_path.iterdir() if left.name.startswith(".")]


def test_records_of_libcachesim_are_its_own(tmp_path: Path) -> None:
    """clock_time, obj_id, obj_size, next_access_vtime, as libCacheSim's oracleGeneralBin.h packs them."""
    path = trace_of(tmp_path / "t.octrace", [4, 5, 4])
    files.export(path, "oracle-general", tmp_path / "records")
    assert [*struct.iter_unpack("<IQIq", (tmp_path / "records").read_bytes())] == [
        (0, 4, 1, 2), (0, 5, 1, -1), (0, 4, 1, -1),
    ]  # fmt: skip


def test_what_is_wrong_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("block\n7\nx\n")
    with pytest.raises(UsageError, match="not an Octavo trace"):
        files.summarize(tmp_path / "text")
    with pytest.raises(UsageError, match="cannot be read"):
        files.summarize(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="line 3: block is not a number"):
        files.import_(tmp_path / "text", "csv", tmp_path / "out", 8192)
    assert not (tmp_path / "out").exists()
    with pytest.raises(HostError, match="cannot be written"):
        files.import_(tmp_path / "text", "csv", tmp_path / "nowhere" / "out", 8192)
    with pytest.raises(HostError, match="has no accesses"):
        surface(SurfaceRequest(trace_of(tmp_path / "empty", [])))


def _document(tmp_path: Path, **more: Any) -> dict[str, Any]:
    path = trace_of(tmp_path / "t.octrace", skewed(4000, 2000), settings={"shared_buffers": "4MB"})
    return surface(SurfaceRequest(path, threads=2, **more))


def test_a_surface_has_room_for_relations_of_unknown_size(tmp_path: Path) -> None:
    """Those of another database than the recorder's: 3,000 pages of 8 kB, read in turn, hit when all have room."""
    writer = _core.TraceWriter(tmp_path / "t.octrace", 8192)
    writer.relation(1663, 5, 16384, kind="r", blocks=3, tuples=9, tuple_bytes=0, fillfactor=0, name=None)
    writer.push([(time, 1, 1663, 6, 16384, 0, time % 3000, 0, 0) for time in range(6000)])
    writer.finish()
    document = surface(SurfaceRequest(tmp_path / "t.octrace", page_sizes=(8192,)))
    (curve,) = document["curves"]
    assert document["capacities_bytes"][-1] > 3000 * 8192 > document["capacities_bytes"][0]
    assert curve["hit_ratios"][-1] == 0.5 and curve["enough_bytes"] >= 3000 * 8192


def test_a_surface_is_that_of_lru_caches(tmp_path: Path) -> None:
    document = _document(tmp_path)
    path = tmp_path / "t.octrace"
    merged = [curve for curve in document["curves"] if curve["layout"] == "merged"]
    assert [curve["page_size_bytes"] for curve in merged] == [8192, 16384, 32768]
    capacities = document["capacities_bytes"]
    for curve in merged:
        size = curve["page_size_bytes"]
        pages = [capacity // size for capacity in capacities]
        _, hits = _core.trace_policy(path, 8192, size, "lru", pages, threads=1, observe=ignore_progress)
        assert curve["hit_ratios"] == pytest.approx([count / 4000 for count in hits])
        assert curve["standard_errors"] == [0.0] * len(capacities)
        distinct = {block // (size // 8192) for block in skewed(4000, 2000)}
        assert curve["working_set_bytes"] == len(distinct) * size
    assert document["shared_buffers_bytes"] == 4 * MB
    json.dumps(document, allow_nan=False)


def test_shared_buffers_of_a_few_pages_have_their_own_hit_ratio(tmp_path: Path) -> None:
    """Four pages of 32 kB, and not the ratio of the smallest capacity that is worth a curve."""
    document = _document(tmp_path, shared_buffers=128 * 1024)
    assert document["capacities_bytes"][0] == 128 * 1024
    for curve in document["curves"]:
        if curve["layout"] == "merged":
            size = curve["page_size_bytes"]
            pages = [128 * 1024 // size]
            _, hits = _core.trace_policy(
                tmp_path / "t.octrace", 8192, size, "lru", pages, threads=1, observe=ignore_progress
            )
            assert curve["at_server"] == pytest.approx(hits[0] / 4000)


def test_rings_are_those_of_the_version(tmp_path: Path) -> None:
    kB = 1024
    for version, limit, expected in (
        ("150018", None, (256 * kB, 16 * MB, 256 * kB)),
        ("170002", "2MB", (256 * kB, 16 * MB, 2 * MB)),
        ("180006", "2MB", (752 * kB, 16 * MB, 2 * MB)),  # 16384 buffers by 174 processes: 94 pins
        ("180006", "0", (752 * kB, 16 * MB, 0)),  # as current_setting writes it
    ):
        settings = {"vacuum_buffer_usage_limit": limit} if limit else {}
        path = trace_of(tmp_path / f"{version}{limit}", [1], settings=settings)
        summary = plausible(files.summarize(path))
        summary["properties"]["server_version_num"] = version
        assert rings(summary, 128 * MB, 8 * kB) == expected


def test_smaller_pages_have_two_ends(tmp_path: Path) -> None:
    curves = {(curve["page_size_bytes"], curve["layout"]): curve for curve in _document(tmp_path)["curves"]}
    own = curves[8192, "merged"]
    for size in (1024, 4096):
        spread, concentrated = curves[size, "spread"], curves[size, "concentrated"]
        assert spread["at_server"] < concentrated["at_server"]
        assert concentrated["working_set_bytes"] == own["working_set_bytes"] * size // 8192
        assert concentrated["at_server"] >= own["at_server"]
        assert spread["working_set_bytes"] <= own["working_set_bytes"]


def test_a_sampled_surface_is_near_the_exact_one_and_has_errors(tmp_path: Path) -> None:
    path = trace_of(tmp_path / "t.octrace", skewed(120_000, 30_000), settings={"shared_buffers": "64MB"})
    exact, sampled = (surface(SurfaceRequest(path, (8192, 32768), rate=rate, threads=2)) for rate in (None, 0.2))
    for curve, estimate in zip(exact["curves"], sampled["curves"], strict=True):
        assert estimate["at_server"] == pytest.approx(curve["at_server"], abs=0.02)
        assert 0 < max(estimate["standard_errors"]) < 0.03
    sweeps = zip(exact["clock_sweep"], sampled["clock_sweep"], strict=True)
    assert all(two["hit_ratio"] == pytest.approx(one["hit_ratio"], abs=0.03) for one, two in sweeps)
    assert any("sampled" in line for line in sampled["limitations"])


def test_a_page_and_a_terminal_say_the_same_and_escape_names(tmp_path: Path) -> None:
    document = _document(tmp_path)
    page = render(document)
    assert verdict(document) in page
    assert page.count("<svg") == 4
    assert "With 4 MB of shared_buffers, " in verdict(document)
    assert "<script" not in page and "http" not in page
    assert surface_view(document) and summary_view(files.summarize(tmp_path / "t.octrace"), 1)


def test_a_curve_without_a_bend_has_no_knee() -> None:
    assert knee([1, 2, 4, 8], [0.0, 0.25, 0.5, 0.75]) is None
    assert knee([1, 2, 4, 8], [0.0, 0.0, 0.1, 0.9]) is None


def test_the_command_line_speaks(tmp_path: Path) -> None:
    path = trace_of(tmp_path / "t.octrace", skewed(4000, 2000), settings={"shared_buffers": "4MB"})
    run = CliRunner()
    found = json.loads(run.invoke(app, ["trace", "info", str(path), "--format", "json"]).stdout)
    assert (found["schema_version"], found["reads"]) == (1, 4000)
    said = run.invoke(app, ["trace", "surface", str(path), "--page-size", "8kB", "-o", str(tmp_path / "s.html")]).stdout
    assert said.startswith("With 4 MB of shared_buffers, the recorded 8 kB pages")
    assert (tmp_path / "s.html").read_text().startswith("<!doctype html>")
    with pytest.raises(UsageError, match="either --from"):
        run.invoke(app, ["trace", "convert", str(path), "-o", "x"], catch_exceptions=False, standalone_mode=False)
    with pytest.raises(UsageError, match="not a data block size"):
        run.invoke(app, ["trace", "surface", str(path), "--page-size", "3kB"], catch_exceptions=False)


@pytest.mark.parametrize("policy", ["lru", "fifo", "clock"])
@pytest.mark.parametrize("seed", [1, 2])
def test_hits_are_those_of_libcachesim(tmp_path: Path, policy: Literal["lru", "fifo", "clock"], seed: int) -> None:
    peer: Any = pytest.importorskip("libcachesim", reason="libcachesim has no wheel for this Python or machine")
    blocks = skewed(20_000, 3000, seed)
    path = trace_of(tmp_path / "t.octrace", blocks)
    records = tmp_path / "t.oracleGeneral.bin"
    files.export(path, "oracle-general", records)
    capacities = [1, 2, 7, 50, 333, 1500, 4000]
    _, hits = _core.trace_policy(path, 8192, 8192, policy, capacities, threads=1, observe=ignore_progress)
    cache_of = {"lru": peer.LRU, "fifo": peer.FIFO, "clock": peer.Clock}[policy]
    for capacity, ours in zip(capacities, hits, strict=True):
        reader = peer.TraceReader(
            trace=str(records),
            trace_type=peer.TraceType.ORACLE_GENERAL_TRACE,
            reader_init_params=peer.ReaderInitParam(ignore_obj_size=True),
        )
        missed, _ = cache_of(capacity).process_trace(reader)
        assert round(20_000 * (1 - missed)) == ours, capacity
