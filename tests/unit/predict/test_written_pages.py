"""Predicted writes: checkpoints, evicted pages, the background writer, the kernel."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.predict.traces import BLOCK, MB, by_block, made

from octavo.predict.after_checkpoint import since_checkpoint
from octavo.predict.counts import COUNTS
from octavo.predict.predict import Request, predict
from octavo.predict.progress import Progress
from octavo.predict.rates import Rates
from octavo.predict.recorded import recorded
from octavo.predict.simulation import simulate
from octavo.predict.size import Size, simulated_server
from octavo.predict.what_if import WhatIf
from octavo.trace import files


def test_the_kernel_writes_of_more_data_what_it_writes_of_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has been dirty for 30 s is written: twice or more in a cycle of 80 s, of which a trace with a quarter
    of the data has 20."""

    def no_writer(_: object) -> dict[str, Any]:
        return {"writer_pages": 0}

    monkeypatch.setattr("octavo.predict.size.background", no_writer)
    written: list[float] = []
    for pages, factor in ((1000, 4.0), (4000, 1.0)):
        path = made(tmp_path / f"{pages}.octrace", writes=True, pages=pages, transactions=45_000, seconds=400.0)
        trace = recorded(path)
        (rates,) = simulate(trace, [Size(BLOCK, 8 * MB, 1000 * MB, data_factor=factor)], 80.0).values()
        written.append(rates[0].each["device_written_bytes"])
    assert written[0] == pytest.approx(written[1], rel=0.08)


@pytest.mark.parametrize(("recorded_pages", "factor"), [(1000, 4.0), (4000, 0.25)])
def test_other_data_of_the_same_skew_is_written_as_if_it_had_been_recorded(
    tmp_path: Path, recorded_pages: int, factor: float
) -> None:
    """4,000 transactions per cycle, each on a random page: of 4,000 pages 1 - 1/e are written at its end."""
    pages = round(recorded_pages * factor)
    asked = Request(
        made(tmp_path / "other.octrace", writes=True, pages=recorded_pages), (BLOCK,), shared_buffers=(64 * MB,),
        memory=128 * MB, checkpoint=4.0, what_if=WhatIf(data=factor),
    )  # fmt: skip
    same = dataclasses.replace(asked, path=made(tmp_path / "same.octrace", writes=True, pages=pages), what_if=WhatIf())
    changed = pages * -math.expm1(-4000 / pages)
    for request in (asked, same):
        found = by_block(predict(request))[BLOCK]
        for name, value in (("checkpoint_bytes", changed * BLOCK), ("full_page_images", changed)):
            assert found[f"{name}_per_transaction"]["value"] == pytest.approx(value / 4000, rel=0.06), name
        after = by_block(predict(dataclasses.replace(request, until_checkpoint=True)))[BLOCK]
        assert after["full_page_images_per_transaction"]["value"] == pytest.approx(changed / 4000, rel=0.06)


def test_a_cycle_of_much_less_data_is_no_longer_than_the_trace(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", writes=True, pages=1000)
    found = by_block(predict(Request(path, (BLOCK,), checkpoint=4.0, what_if=WhatIf(data=0.1))))[BLOCK]
    # 100 pages, of which the trace has 1,000: all are written, and at most once in 19 s
    assert found["checkpoint_bytes_per_transaction"]["value"] == pytest.approx(BLOCK / 20, rel=0.1)


def test_before_the_next_checkpoint_only_evicted_pages_are_written(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", writes=True)
    asked = Request(path, (8192,), memory=64 * MB, checkpoint=4.0)
    with_checkpoints, until = (
        by_block(predict(dataclasses.replace(asked, until_checkpoint=value)))[8192] for value in (False, True)
    )
    assert with_checkpoints["checkpoint_bytes_per_transaction"]["value"] > 0
    assert until["checkpoint_bytes_per_transaction"]["value"] == 0
    # 4,000 transactions on 4,000 pages: 1 - 1/e of them are changed.
    assert until["full_page_images_per_transaction"]["value"] == pytest.approx(0.63, abs=0.03)


# 8 MB of buffers are 1,024 of 8 kB. Each of 20,000 transactions changes the page that it looks up; of 4,000 pages 74 %
# are read. No background writer.
_EVICTING: dict[str, Any] = {
    "writes": True,
    "settings": {"bgwriter_delay": "200ms", "bgwriter_lru_maxpages": "0", "bgwriter_lru_multiplier": "2"},
}


def test_what_is_evicted_after_a_checkpoint_waits_in_the_page_cache(tmp_path: Path) -> None:
    """The first evicted pages are clean, as many as there are buffers; the kernel writes dirty ones above its limit."""
    path = made(tmp_path / "t.octrace", **_EVICTING)
    asked = Request(path, (BLOCK,), memory=256 * MB, checkpoint=4.0, until_checkpoint=True)

    def written(transactions: float, background: int) -> dict[str, Any]:
        one = dataclasses.replace(asked, transactions={BLOCK: transactions}, dirty_background=background)
        return by_block(predict(one))[BLOCK]["device_written_bytes_per_transaction"]

    evicted = written(8_000, 0)["value"] * 8_000 / BLOCK
    assert 0.744 * 8_000 - 1_024 - 60 < evicted < 0.744 * 8_000 + 60
    assert written(200, 0)["value"] < 0.1 * BLOCK
    waiting = written(8_000, 1 << 40)
    assert waiting["value"] == 0 and waiting["because"] == "evicted pages that are still dirty in the page cache"
    assert waiting["high"] * 8_000 / BLOCK == pytest.approx(evicted, rel=0.01)
    cycles = dataclasses.replace(asked, until_checkpoint=False, dirty_background=1 << 40)
    found = by_block(predict(cycles))[BLOCK]["device_written_bytes_per_transaction"]
    assert found["value"] > 0.5 * BLOCK and found["low"] == found["value"]


@pytest.mark.parametrize(("pace", "slice_seconds"), [(10.0, None), (0.1, None), (10.0, 1.0), (1.0, 0.02)])
def test_the_background_writer_goes_by_the_clock_of_the_predicted_server(
    tmp_path: Path, pace: float, slice_seconds: float | None
) -> None:
    """At most 100 pages per 200 ms, in which the trace has 200 transactions: of 2,000 it writes 100, of 20 all. In
    slices it has a round when one begins."""
    trace = recorded(made(tmp_path / "t.octrace", writes=True))
    size = Size(
        BLOCK, 8 * MB, 256 * MB, has_checkpoints=False, dirty_background=1 << 40, pace=pace, slice_seconds=slice_seconds
    )
    found = simulate(trace, [size], 8.0)[size][0].after_checkpoint(8_000)
    dirty = found["writer_writes"] + found["dirty_evictions"]
    assert (0.744 * 8_000 - 1_024 - 60) / 8_000 < dirty < 0.75
    if pace > 1:
        assert found["writer_writes"] <= 100 / 2_000 * 1.1
    else:
        assert found["writer_writes"] > 0.9 * dirty


def test_what_the_background_writer_has_written_waits_for_its_flush(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", writes=True)
    asked = Request(path, (BLOCK,), memory=256 * MB, checkpoint=4.0, until_checkpoint=True, dirty_background=1 << 40)

    def written(flushes: dict[int, tuple[int, int]]) -> float:
        found = by_block(predict(dataclasses.replace(asked, transactions={BLOCK: 8_000}, flushes=flushes)))[BLOCK]
        value: float = found["device_written_bytes_per_transaction"]["value"] / BLOCK
        return value

    never, default, each = (written(flushes) for flushes in ({BLOCK: (0, 0)}, {}, {BLOCK: (1, 1)}))
    assert never == 0 and 0.3 < default < each


@pytest.mark.parametrize(("delay", "rounds"), [("200ms", 600.0), ("50ms", 2_400.0)])
def test_the_background_writer_passes_all_buffers_in_two_minutes_of_the_predicted_server(
    tmp_path: Path, delay: str, rounds: float
) -> None:
    """By its clock, and in as many rounds if a slice shortens these: each passes as many buffers as it would have."""
    settings = {"bgwriter_delay": delay, "bgwriter_lru_maxpages": "100", "bgwriter_lru_multiplier": "2"}
    trace = recorded(made(tmp_path / "t.octrace", writes=True, settings=settings))
    for pace, slice_seconds in ((1.0, None), (10.0, None), (0.1, None), (1.0, 0.02)):
        size = Size(BLOCK, 8 * MB, None, has_checkpoints=False, pace=pace, slice_seconds=slice_seconds)
        found = simulated_server(trace, size, "merged", 8.0)
        assert found.writer_rounds == pytest.approx(rounds)
        if slice_seconds is None:
            assert found.writer_delay * rounds == pytest.approx(120e6 * pace)


def test_a_page_is_read_to_be_written_when_dirty_parts_of_it_are_evicted(tmp_path: Path) -> None:
    """Blocks of 2 kB, half of a kernel page: few of those that a checkpoint left clean are dirty again so soon."""
    path = made(tmp_path / "t.octrace", **_EVICTING)
    asked = Request(path, (2048,), memory=10 * MB, checkpoint=4.0, kernel_page=4096, readahead=0)
    cycles = by_block(predict(asked))[2048]
    soon = dataclasses.replace(asked, until_checkpoint=True, transactions={2048: 200.0})
    after = by_block(predict(soon))[2048]
    reads = after["reads_per_transaction"]["value"]
    assert 0.8 * reads < after["device_reads_per_transaction"]["value"] < 1.05 * reads
    assert cycles["device_reads_per_transaction"]["value"] > 1.4 * reads


def test_how_many_transactions_were_measured_says_nothing_of_their_speed(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", **_EVICTING)
    asked = Request(path, (BLOCK,), memory=64 * MB, checkpoint=4.0, until_checkpoint=True, device="mbps=8")
    free, told = (
        by_block(predict(dataclasses.replace(asked, transactions=known)))[BLOCK] for known in ({}, {BLOCK: 100.0})
    )
    assert told["tps"] == free["tps"]
    images = "full_page_images_per_transaction"
    assert told[images]["value"] > 1.1 * free[images]["value"]
    # The number of transactions is consistent with the time.
    many = free["tps"]["value"] * 4.0
    assert free[images]["value"] == pytest.approx(4_000 * -math.expm1(-many / 4_000) / many, rel=0.05)


def test_counts_after_a_checkpoint_begin_behind_all_that_it_writes() -> None:
    """Marks in a gap between accesses are before the checkpoint, which takes place at the next access."""

    def counts(accesses: float, written: float) -> dict[str, float]:
        return {**dict.fromkeys((*COUNTS, "time"), 0.0), "accesses": accesses, "taken_accesses": accesses,
                "trace_accesses": accesses, "device_written_bytes": written}  # fmt: skip

    series = [counts(500, 10), counts(500, 10), counts(501, 5_000), counts(601, 5_400), counts(1_001, 9_000)]
    found = since_checkpoint(Progress(((0.0, 0.0), (2_000.0, 4_000.0))), [series])
    assert found["device_written_bytes"] == ((200.0, 400.0), (1_000.0, 4_000.0))
    rates = Rates("merged", {}, 0.0, True, 0.0, 0.0, (), since_checkpoint=found)
    assert rates.after_checkpoint(100)["device_written_bytes"] == 2.0
    assert rates.after_checkpoint(600)["device_written_bytes"] == pytest.approx(2_200 / 600)


def test_a_part_of_a_checkpoint_cycle_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """Of 20 s two cycles of 8 s are whole; in each the 8,000 transactions change all of 900 pages."""
    path = made(tmp_path / "t.octrace", writes=True, pages=900)
    found = by_block(predict(Request(path, (BLOCK,), memory=64 * MB, checkpoint=8.0)))[BLOCK]
    assert found["checkpoint_bytes_per_transaction"]["value"] == pytest.approx(900 * BLOCK / 8000, rel=0.06)


def test_checkpoint_cycles_begin_with_the_first_access_of_a_part(tmp_path: Path) -> None:
    """From 5 s on; in each cycle of 8 s the 8,000 transactions change all of 900 pages."""
    whole = made(tmp_path / "t.octrace", writes=True, pages=900, facts={"work_lookups": 20_000})
    files.cut(whole, tmp_path / "part", 5.0, None, None)
    found = by_block(predict(Request(tmp_path / "part", (BLOCK,), memory=64 * MB, checkpoint=8.0)))[BLOCK]
    assert found["full_page_images_per_transaction"]["value"] == pytest.approx(900 / 8000, rel=0.06)
    assert found["checkpoint_bytes_per_transaction"]["value"] == pytest.approx(900 * BLOCK / 8000, rel=0.06)
