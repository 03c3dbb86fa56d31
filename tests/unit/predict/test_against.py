"""Predictions compared with the trials of a run."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.predict.traces import BLOCK, MB, by_block, made
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.errors import UsageError
from octavo.predict.against import best_blocks, chosen, compare, parse_where
from octavo.predict.predict import Request, predict
from octavo.predict.recorded import recorded
from octavo.predict.render_against import best_line
from octavo.predict.scatter import scatter
from octavo.predict.size import Size, simulated_server


def trial(block: str, device: str = "iops=500", **observed: float) -> dict[str, Any]:
    """A trial of a run, as in its report."""
    return {
        "status": "ok",
        "facts": {},
        "levels": {"data_block": block, "mode": "read-only", "shared_buffers": "8MB", "memory": "32MB",
                   "device": device, "clients": "4"},
        "observations": [{"metric": name, "item": None, "value": value} for name, value in observed.items()],
    }  # fmt: skip


def test_predicted_is_held_against_measured(tmp_path: Path) -> None:
    request = Request(made(tmp_path / "t.octrace"))
    trials = [
        trial("8kB", tps=700.0, device_read_requests_per_transaction=0.7, wal_bytes_per_transaction=3.0),
        trial("32kB", tps=650.0, device_read_requests_per_transaction=0.8),
        {**trial("4kB", tps=1.0), "status": "invalid", "reason": "too short"},
    ]
    found = compare(request, {"trials": trials}, {"mode": "read-only"}, 15 * MB)
    metrics = {(one["metric"], one["data_block_bytes"]): one for one in found["points"]}
    assert set(metrics) == {
        (name, block) for name in ("tps", "device_reads_per_transaction") for block in (8192, 32768)
    }
    assert metrics["device_reads_per_transaction", 8192]["measured"] == 0.7
    one = metrics["tps", 8192]
    assert one["error"] == pytest.approx(one["predicted"] / 700 - 1)
    assert {row["metric"]: row["count"] for row in found["summary"]} == {"tps": 2, "device_reads_per_transaction": 2}
    (best,) = best_blocks(found["points"])
    assert best["measured_block_bytes"] == 8192
    assert "predicted to be fastest" in best_line(best) and "32 MB of memory, 4 clients: " in best_line(best)
    few = [{**one, "clients": 1} for one in found["points"]]
    assert [one["clients"] for one in best_blocks([*found["points"], *few])] == [4, 1]
    after = [{**one, "until_checkpoint": True} for one in found["points"]]
    lines = [best_line(one) for one in best_blocks([*found["points"], *after])]
    assert ["4 clients, after a checkpoint: " in line for line in lines] == [False, True]
    assert "<svg" in scatter(found["points"]).file("svg").decode()
    with pytest.raises(UsageError, match="no valid trial"):
        compare(request, {"trials": trials}, {"mode": "tpcb"})
    with pytest.raises(UsageError, match="mode=read-only"):
        parse_where(["mode"])


def test_an_interval_holds_if_the_median_of_the_trials_is_in_it(tmp_path: Path) -> None:
    request = Request(made(tmp_path / "t.octrace"))

    def held(*tps: float) -> bool:
        trials = [trial("8kB", tps=one) for one in tps]
        (one,) = compare(request, {"trials": trials}, {"mode": "read-only"}, 15 * MB)["points"]
        assert one["low"] <= one["predicted"] <= one["high"]
        return one["is_covered"]

    (one,) = compare(request, {"trials": [trial("8kB", tps=700.0)]}, {"mode": "read-only"}, 15 * MB)["points"]
    assert held(one["predicted"])
    assert not held(3 * one["high"], 3 * one["high"], one["predicted"])  # a single trial in it is not enough


def test_bytes_written_to_the_device_are_compared_with_wal(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", writes=True)
    measured = trial("8kB", tps=500.0, transactions=1_000.0, device_written_bytes_per_transaction=9_000.0)
    measured["levels"]["wal_regime"] = "after-checkpoint"
    found = {point["metric"]: point for point in compare(Request(path), {"trials": [measured]}, {})["points"]}
    one = found["device_all_written_bytes_per_transaction"]
    asked = Request(path, (BLOCK,), memory=32 * MB, device="iops=500", checkpoint=2.0, until_checkpoint=True,
                    transactions={BLOCK: 1_000.0}, is_throttled=True)  # fmt: skip
    figures = by_block(predict(asked))[BLOCK]
    parts = ("device_written_bytes_per_transaction", "wal_written_bytes_per_transaction")
    assert one["predicted"] == pytest.approx(sum(figures[name]["value"] for name in parts))
    assert one["measured"] == 9_000 and figures[parts[1]]["value"] > 0


def test_trials_that_others_disturbed_are_compared_when_asked_for() -> None:
    rules = ("steal", "foreign_cpu", "foreign_io", "duration", "knobs")
    invalid = [{**trial("16kB", tps=5.0), "status": "invalid", "facts": {"rule": rule}} for rule in rules]
    assert chosen(invalid, {}, disturbed=True) == invalid[:3]
    with pytest.raises(UsageError, match="no valid trial"):
        chosen(invalid, {})


def test_wal_blocks_of_the_trials_are_predicted(tmp_path: Path) -> None:
    """A flush writes whole WAL pages: large ones are written mostly empty."""
    path = made(tmp_path / "t.octrace", writes=True)
    trials = [trial(block, tps=500.0, transactions=1_000.0, device_written_bytes_per_transaction=9_000.0)
              for block in ("8kB", "32kB", "8kB", "32kB")]  # fmt: skip
    for one, block in zip(trials, ("8kB", "8kB", "64kB", "64kB"), strict=True):
        one["levels"] |= {"wal_regime": "after-checkpoint", "wal_block": block}
    points = compare(Request(path), {"trials": trials}, {})["points"]
    written = {
        one["wal_block_bytes"]: one["predicted"]
        for one in points
        if one["metric"].startswith("device_all_written") and one["data_block_bytes"] == 8192
    }
    assert set(written) == {8192, 65536} and written[65536] > 1.5 * written[8192]
    lines = [best_line(one) for one in best_blocks(points)]
    assert ["64 kB WAL blocks, after a checkpoint: " in line for line in lines] == [False, True]


def test_the_background_writer_of_the_trials_is_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs pin bgwriter_lru_maxpages and the flushes in bytes, which are fewer pages of larger blocks."""
    asked: list[Request] = []

    def stopped(request: Request, _: object) -> dict[str, Any]:
        asked.append(request)
        raise UsageError("enough")

    monkeypatch.setattr("octavo.predict.against.predict", stopped)
    path = made(tmp_path / "t.octrace", writes=True)
    trials = [{**trial(block, tps=1.0), "cell": block} for block in ("8kB", "32kB")]
    flushes = {"bgwriter_flush_after": "256kB", "checkpoint_flush_after": "256kB"}
    settings = {block: {"bgwriter_lru_maxpages": pages, **flushes} for block, pages in (("8kB", "100"), ("32kB", "25"))}
    with pytest.raises(UsageError, match="enough"):
        compare(Request(path), {"trials": trials, "environment": {"settings": settings}}, {})
    assert asked[0].writer_pages == {8192: 100, 32768: 25}
    assert asked[0].flushes == {8192: (32, 32), 32768: (8, 8)}
    sizes = [Size(32768, 8 * MB, None, writer_pages=pages) for pages in (25, None)]
    assert [simulated_server(recorded(path), size, "merged", None).writer_pages for size in sizes] == [25, 100]
    sizes = [Size(32768, 8 * MB, None, flushes=flushed) for flushed in ((8, 8), None)]
    servers = [simulated_server(recorded(path), size, "merged", None) for size in sizes]
    assert [(one.writer_flush, one.checkpoint_flush) for one in servers] == [(8, 8), (64, 32)]


def test_trials_of_equal_memory_have_other_buffers_than_their_level(tmp_path: Path) -> None:
    request = Request(made(tmp_path / "t.octrace"), data_blocks=(8192,))
    trials = [trial("8kB", tps=700.0), trial("8kB", tps=600.0)]
    for one, equal in zip(trials, ("buffers", "memory"), strict=True):
        one["levels"]["equal"] = equal
    with pytest.raises(UsageError, match="--where equal=buffers"):
        compare(request, {"trials": trials}, {})
    found = compare(request, {"trials": trials}, {"equal": "buffers"})
    assert [one["measured"] for one in found["points"] if one["metric"] == "tps"] == [700.0]


def test_a_private_volume_without_limits_is_the_machine_s_own_device(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace")
    trials = [trial("8kB", device=device, tps=700.0, device_read_requests_per_transaction=0.7)
              for device in ("native", "loop")]  # fmt: skip
    found = compare(Request(path, device="iops=500"), {"trials": trials}, {}, 15 * MB)
    tps = {one["device"]: one["predicted"] for one in found["points"] if one["metric"] == "tps"}
    assert tps["loop"] == tps["native"]
    assert [one["device"] for one in found["points"] if one["metric"].startswith("device_")] == ["loop"]
    assert {row["device"] for row in found["summary"]} == {"native"}


def test_a_trial_in_slices_had_more_transactions_since_its_checkpoint_than_are_counted(tmp_path: Path) -> None:
    """500 per second for 8 s change 63 % as many of 4,000 pages; those of the 2 s that are counted, 88 %."""
    path = made(tmp_path / "t.octrace", writes=True, before=0)
    one = trial("8kB", tps=500.0, transactions=1_000.0, wal_full_page_images_per_transaction=0.63)
    one["levels"]["wal_regime"] = "after-checkpoint"
    each: dict[str, Any] = {"item": None, "metric": "wal_bytes_per_transaction", "value": 5_000.0}
    whole = {**each, "metric": "wal_bytes", "value": 5_000.0 * 4_000}
    for facts, more, expected in (({"ran_seconds": 8.0}, [], 0.63), ({}, [each, whole], 0.63), ({}, [], 0.88)):
        measured = {**one, "facts": facts, "observations": [*one["observations"], *more]}
        points = compare(Request(path), {"trials": [measured]}, {})["points"]
        (images,) = [point for point in points if point["metric"] == "full_page_images_per_transaction"]
        assert images["predicted"] == pytest.approx(expected, abs=0.03)


def test_speed_on_a_machine_that_others_use_is_not_compared(tmp_path: Path) -> None:
    request = Request(made(tmp_path / "t.octrace"))
    foreign = {"status": "invalid", "facts": {"rule": "foreign_cpu"}}
    trials = [
        {**trial(block, device, tps=700.0), **foreign} for block in ("8kB", "32kB") for device in ("native", "iops=500")
    ]
    found = compare(request, {"trials": trials}, {}, disturbed=True)
    assert {one["device"] for one in found["points"] if one["metric"] == "tps"} == {"iops=500"}


def test_the_run_to_compare_with_is_in_the_store_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_STORE", "http://elsewhere")
    asked = CliRunner().invoke(app, ["predict", "t.octrace", "--against", "last"])
    assert isinstance(asked.exception, UsageError) and "OCTAVO_STORE: write postgresql://" in str(asked.exception)
