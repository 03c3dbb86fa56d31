"""Predicted WAL: full-page images, records, and flushes."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.predict.traces import BLOCK, MB, RECORDS, by_block, made

from octavo.predict.assumptions import Assumptions
from octavo.predict.conditions import Conditions
from octavo.predict.device import device_of
from octavo.predict.image_correction import correction, transactions_before
from octavo.predict.images import images_of
from octavo.predict.model import assumed_of, work
from octavo.predict.predict import Request, predict
from octavo.predict.rates import Rates
from octavo.predict.recorded import Recorded, recorded
from octavo.predict.simulation import simulate
from octavo.predict.size import Size, simulated_server


def test_wal_of_the_pauses_between_slices_is_that_of_their_transactions(tmp_path: Path) -> None:
    """20,000 transactions are in the slices, of 30,000 in all: the WAL of 20 s is that of all."""
    facts = {"work_transactions": 30_000, "work_lookups": 30_000}
    path = made(tmp_path / "t.octrace", writes=True, pause=True, logged=9_000_000, facts=facts)
    trace = recorded(path)
    assert (trace.transactions, trace.seconds) == (20_000, pytest.approx(19.0, rel=0.001))
    assert trace.wal_bytes_each == pytest.approx(300)
    assert trace.wal_records_each == pytest.approx(2)


def test_with_four_times_the_data_a_transaction_writes_as_much_wal_as_ever(tmp_path: Path) -> None:
    """A second of the trace represents four of the server's, and a byte in its caches represents four."""
    trace = recorded(made(tmp_path / "t.octrace", writes=True, pages=20_000, transactions=5000))
    one, four = (
        simulated_server(trace, Size(BLOCK, 8 * MB, 64 * MB, data_factor=factor), "merged", 20.0)
        for factor in (1.0, 4.0)
    )
    assert one.page_cache is not None and four.page_cache == one.page_cache // 4
    assert one.log_rate > 0 and one.log_image > 0
    assert (four.log_rate, four.log_image) == pytest.approx((one.log_rate, one.log_image))
    assert four.log_kept == pytest.approx(one.log_kept / 4, abs=1)
    assert (one.dirty_expire, four.dirty_expire) == (30_000_000, 7_500_000)
    fast = simulated_server(trace, Size(BLOCK, 8 * MB, 64 * MB, pace=2.0), "merged", 20.0)
    assert fast.dirty_expire == 60_000_000  # on the trace's clock, in which as many transactions ended


def test_a_page_has_an_image_of_each_of_its_parts_at_most(tmp_path: Path) -> None:
    """With ten times the transactions of the trace, at the end of which all pages are changed, but not all of their
    parts."""
    path = made(tmp_path / "t.octrace", writes=True, pages=600, transactions=5000)
    since = {1024: 50_000.0, 8192: 50_000.0}
    asked = Request(path, data_blocks=(1024, 8192), checkpoint=20.0, until_checkpoint=True, transactions=since)
    found = by_block(predict(asked))
    small, own = (found[block]["full_page_images_per_transaction"]["value"] for block in (1024, 8192))
    assert 4 * own < small <= 8 * own * 1.3  # and fewer updates are HOT in small blocks


def test_images_grow_with_the_block_and_wal_at_the_recorded_size_is_what_was_recorded(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", writes=True, pages=20_000, transactions=5000)
    document = predict(Request(path, checkpoint=20.0))
    found = by_block(document)
    here = document["recorded"]["wal_bytes_per_transaction"]
    assert found[8192]["wal_bytes_per_transaction"]["value"] == pytest.approx(here, rel=0.001)
    wal = [found[block]["wal_bytes_per_transaction"]["value"] for block in sorted(found)]
    assert wal == sorted(wal) and wal[-1] > 2 * wal[3]
    assert document["recorded"]["simulated_over_counted"]["full_page_images"] == pytest.approx(1.0, rel=0.001)
    assert found[8192]["wal_record_bytes_per_transaction"]["value"] == pytest.approx(300, rel=0.01)
    # One flush for two commits: half a page more is written than generated.
    written = found[8192]["wal_written_bytes_per_transaction"]["value"]
    assert written - found[8192]["wal_bytes_per_transaction"]["value"] == pytest.approx(4096)


def test_images_of_a_cycle_are_read_off_the_first_one() -> None:
    rates = Rates("merged", {}, 0.0, True, 0.0, 0.0, ((100.0, 80.0), (200.0, 120.0)))
    assert [rates.images(count) for count in (50.0, 100.0, 150.0, 400.0)] == [0.8, 0.8, pytest.approx(100 / 150), 0.5]
    assert Rates("merged", {}, 0.0, True, 0.0, 0.0, ()).images(10.0) is None


def test_wal_takes_room_in_the_page_cache_until_its_files_are_written_over(tmp_path: Path) -> None:
    def reads(name: str, logged: int, **settings: str) -> float:
        path = made(tmp_path / name, writes=True, logged=logged, settings=settings)
        asked = Request(path, data_blocks=(8192,), memory=60 * MB, until_checkpoint=True, checkpoint=20.0)
        return by_block(predict(asked))[8192]["device_read_bytes_per_transaction"]["value"]

    little, much = reads("little", 40 * MB), reads("much", 240 * MB)
    assert much > 1.1 * little
    for name, text in (("max_wal_size", "2MB"), ("wal_level", "minimal")):
        assert reads(name, 240 * MB, **{name: text}) < (little + much) / 2


def test_a_checkpoint_before_the_trace_is_no_reason_for_fewer_images(tmp_path: Path) -> None:
    """10,000 transactions on 20,000 pages, after 4,000 others since the checkpoint: 18 % of the pages have an image."""
    whole = recorded(made(tmp_path / "whole.octrace", writes=True, pages=20_000, transactions=10_000, before=0))
    late = recorded(made(tmp_path / "late.octrace", writes=True, pages=20_000, transactions=10_000, before=4_000))
    own = Size(BLOCK, 8 * MB, None, is_as_recorded=True)
    rates = simulate(late, [own], 20.0)[own][0]
    assert late.images_each is not None and whole.images_each is not None
    assert late.images_each / whole.images_each == pytest.approx(0.82, abs=0.02)
    assert (transactions_before(late, rates, 0.95) or (0, 0))[0] == pytest.approx(4_000, rel=0.03)
    assert correction(late, rates, 0.95).factor == pytest.approx(1.0, abs=0.03)
    assert correction(whole, rates, 0.95).factor == pytest.approx(1.0, abs=0.01)
    figures = by_block(predict(Request(late.path, (BLOCK,), checkpoint=20.0)))[BLOCK]
    wal = figures["wal_bytes_per_transaction"]
    expected = (RECORDS + whole.images_each * (0.95 * BLOCK + 32)) / (1 - 24 / 8192)
    assert wal["value"] == pytest.approx(expected, rel=0.03) and wal["low"] < expected < wal["high"]


# 4,000 transactions in 8 s before the trace, whose images are full, and 10,000 in it, whose images are half empty.
_EMPTIER: dict[str, Any] = {"writes": True, "pages": 20_000, "transactions": 10_000, "before": 4_000, "seconds": 20.0,
                            "fills": (0.98, 0.48)}  # fmt: skip


@pytest.mark.parametrize("told", ["commits", "time"])
def test_images_behind_a_checkpoint_are_as_full_as_they_were_there(tmp_path: Path, told: str) -> None:
    """WAL of a cycle of 10,000 transactions: 20,000 (1 - e^(-1/2)) images, of them those of 4,000 full."""
    facts: dict[str, Any] = {"checkpoint_seconds": 8.5}
    if told == "time":  # WAL before the trace could no longer be read
        facts |= {"checkpoint_commits": None, "checkpoint_image_bytes": None, "checkpoint_images": None}
    late = recorded(made(tmp_path / "t.octrace", **_EMPTIER, kinds=True, facts=facts))
    assert late.before is not None and late.before.is_counted == (told == "commits")
    assert late.before.transactions == pytest.approx(4_000, rel=0.001)
    own = Size(BLOCK, 8 * MB, None, is_as_recorded=True)
    found = correction(late, simulate(late, [own], 20.0)[own][0], 0.48)
    assert found.factor == pytest.approx(1.0, abs=0.03)
    assert found.fill_before == pytest.approx(0.98, abs=0.03)
    early, whole = (20_000 * -math.expm1(-count / 20_000) for count in (4_000, 10_000))
    expected = RECORDS + (early * (0.98 * BLOCK + 32) + (whole - early) * (0.48 * BLOCK + 32)) / 10_000
    wal = by_block(predict(Request(late.path, (BLOCK,), checkpoint=20.0)))[BLOCK]["wal_bytes_per_transaction"]
    assert wal["value"] == pytest.approx(expected / (1 - 24 / 8192), rel=0.03)
    assert wal["low"] < expected / (1 - 24 / 8192) < wal["high"]


def test_images_that_the_server_reports_late_are_not_those_of_the_trace(tmp_path: Path) -> None:
    """A recording that begins after a checkpoint: half of the images before it are in the server's counter."""
    cycle: dict[str, Any] = {**_EMPTIER, "fills": (0.95, 0.95), "late": 1_800, "facts": {"checkpoint_seconds": 8.5}}
    expected = RECORDS + 20_000 * -math.expm1(-0.5) * (0.95 * BLOCK + 32) / 10_000
    values = {}
    for kinds in (True, False):
        path = made(tmp_path / f"{kinds}.octrace", **cycle, kinds=kinds)
        found = by_block(predict(Request(path, (BLOCK,), checkpoint=20.0)))[BLOCK]
        values[kinds] = found["full_page_images_per_transaction"]["value"]
        if kinds:
            assert found["wal_bytes_per_transaction"]["value"] == pytest.approx(expected / (1 - 24 / 8192), rel=0.03)
    assert values[True] == pytest.approx(2 * -math.expm1(-0.5), rel=0.03)
    assert values[False] > 1.15 * values[True]


def test_pages_that_are_fuller_at_another_time_take_nothing_from_the_traces_records(tmp_path: Path) -> None:
    """Half-empty images were counted; full ones have correspondingly more bytes, whatever the trace's records are."""
    cycle: dict[str, Any] = {**_EMPTIER, "before": 0, "fills": (0.48, 0.48)}
    path = made(tmp_path / "t.octrace", **cycle, kinds=True)
    found = by_block(predict(Request(path, (BLOCK,), checkpoint=20.0)))[BLOCK]
    wal, images = found["wal_bytes_per_transaction"], found["full_page_images_per_transaction"]["value"]
    assert wal["because"] == "fill of the pages in full-page images"
    assert wal["high"] - wal["value"] == pytest.approx(images * (0.98 - 0.48) * BLOCK, rel=0.05)


def test_a_trace_of_an_earlier_version_says_less_of_the_time_before(tmp_path: Path) -> None:
    """Only bytes: fuller images before the trace are interpreted as more transactions."""
    late = recorded(made(tmp_path / "t.octrace", **_EMPTIER))
    assert late.before is not None and late.before.transactions is None
    own = Size(BLOCK, 8 * MB, None, is_as_recorded=True)
    rates = simulate(late, [own], 20.0)[own][0]
    assert (transactions_before(late, rates, 0.48) or (0, 0))[0] > 6_000
    assert correction(late, rates, 0.48).fill_before is None


def test_a_time_of_whole_seconds_says_nothing_of_a_checkpoint_just_before(tmp_path: Path) -> None:
    cycle: dict[str, Any] = {**_EMPTIER, "before": 100, "facts": {"checkpoint_seconds": 1.2}}
    late = recorded(made(tmp_path / "t.octrace", **cycle))
    assert late.before is not None and late.before.transactions is None


def test_where_nobody_knows_the_checkpoint_the_interval_has_both_ends(tmp_path: Path) -> None:
    late = made(tmp_path / "t.octrace", writes=True, pages=20_000, transactions=10_000, before=4_000,
                facts={"checkpoint_wal_bytes": None})  # fmt: skip
    figures = by_block(predict(Request(late, (BLOCK,), checkpoint=20.0)))[BLOCK]
    images = figures["full_page_images_per_transaction"]
    assert images["low"] < 0.79 * 0.82 < images["value"] < 0.79 < images["high"]


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ({"kinds": True, "stretches": 20}, 2_000),
        ({"kinds": True}, 1_500),
        ({}, 1_500),
        ({"kinds": True, "stretches": 20, "pause": True}, 1_500),
    ],
)
def test_transactions_are_those_that_committed_in_each_stretch(tmp_path: Path, told: dict[str, Any], seen: int) -> None:
    """The first 10,000 of 20,000 transactions look up two pages. By accesses 2,000 transactions are the first 1,500;
    pauses have commits without accesses."""
    path = made(tmp_path / "t.octrace", writes=True, before=0, twice=0.5, **told)
    asked = Request(path, (BLOCK,), memory=64 * MB, checkpoint=15.0, until_checkpoint=True, transactions={BLOCK: 2e3})
    document = predict(asked)
    assert any("commits of each second" in line for line in document["limitations"]) == (seen == 1_500)
    images = by_block(document)[BLOCK]["full_page_images_per_transaction"]["value"]
    assert images == pytest.approx(4_000 * -math.expm1(-seen / 4_000) / 2_000, rel=0.05)


def test_a_server_without_full_page_writes_logs_no_images_at_any_size(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", writes=True, settings={"full_page_writes": "off"})
    document = predict(Request(path, (4096, BLOCK), checkpoint=20.0))
    for figures in by_block(document).values():
        assert figures["full_page_images_per_transaction"]["value"] == 0
        assert figures["wal_image_bytes_per_transaction"]["high"] == 0
    changes = [one["change"] for one in document["recommendation"]["cheaper"]]
    assert changes and not {"wal_compression", "checkpoints half as often"} & {*changes}


@pytest.mark.parametrize("compression", ["off", "lz4"])
def test_fewer_checkpoints_are_an_alternative_to_compression_and_with_it(tmp_path: Path, compression: str) -> None:
    path = made(tmp_path / "t.octrace", writes=True, settings={"wal_compression": compression})
    cheaper = predict(Request(path, (BLOCK,), checkpoint=20.0))["recommendation"]["cheaper"]
    changes = {one["change"] for one in cheaper}
    assert "checkpoints half as often" in changes and ("wal_compression" in changes) == (compression == "off")


def _more_images(trace: Recorded, since: float) -> list[float]:
    """The part of more images because fewer updates are HOT, at 4, 2 and 1 kB."""
    one = Rates("merged", {"full_page_images": 1.0}, 0.0, True, 0.0, 0.0, ())
    own, device = Size(BLOCK, 8 * MB, None), device_of(None)
    given = Conditions(trace, own, [one], own, [one], device, device, 4, 20.0, transactions=since)

    def images(block: int, multiple: float) -> float:
        assumed = Assumptions(elsewhere_images=multiple)
        return images_of(Size(block, 8 * MB, None), one, assumed, given, None) or 0.0

    return [images(block, 1.0) / images(block, 0.0) - 1 for block in (4096, 2048, 1024)]


@pytest.mark.parametrize("age", [4_000, 40_000, 400_000])
def test_where_few_updates_are_hot_smaller_pages_lose_few(tmp_path: Path, age: int) -> None:
    """A table of 50,000 pages that had so many updates since it was loaded."""

    def not_hot(transactions: float, pages: float) -> float:
        return pages * (math.exp(-age / pages) - math.exp(-(age + transactions) / pages))

    counts = [1_000.0 * step for step in range(1, 21)]
    moved = tuple((count, not_hot(count, 50_000)) for count in counts)
    kept = tuple((count, count - not_hot(count, 50_000)) for count in counts)
    trace = recorded(made(tmp_path / "t.octrace", writes=True, pages=100, transactions=1_000))
    here, *there = (not_hot(8_000, 50_000 * parts) for parts in (1, 2, 4, 8))
    expected = [
        min(0.09 * octaves, (one - here) / (8_000 + here)) for octaves, one in enumerate(there, start=1)
    ]  # fmt: skip
    assert expected[0] < 0.09 or age > 4_000
    assert _more_images(dataclasses.replace(trace, updates=(moved, kept)), 8_000) == pytest.approx(expected, rel=0.05)
    assert _more_images(trace, 8_000) == pytest.approx([0.09, 0.18, 0.27])  # no pg_walinspect


@pytest.mark.parametrize("told", [{"stretches": 20}, {"stretches": 20, "pause": True}, {}])
def test_updates_that_were_not_hot_are_counted_by_transactions(tmp_path: Path, told: dict[str, Any]) -> None:
    trace = recorded(made(tmp_path / "t.octrace", writes=True, kinds=True, **told))
    for count in (10.0, 1_000.0, 30_000.0):
        assert trace.updates_each(count) == [pytest.approx(1.0, rel=1e-3), 0.0]
    assert recorded(made(tmp_path / "none.octrace", writes=True)).updates_each(10.0) is None


def test_images_follow_the_transactions_that_were_counted(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", writes=True, before=0)
    asked = Request(path, (BLOCK,), checkpoint=20.0, until_checkpoint=True, transactions={BLOCK: 4_000.0})
    assert by_block(predict(asked))[BLOCK]["full_page_images_per_transaction"]["value"] == pytest.approx(0.63, abs=0.03)


def test_transactions_that_write_nothing_need_no_flush(tmp_path: Path) -> None:
    """Of 40 transactions one is flushed, by 4 clients: a limited device does not increase that."""
    path = made(tmp_path / "t.octrace", writes=True, facts={"work_wal_syncs": 500})
    figures = by_block(predict(Request(path, (BLOCK,), checkpoint=20.0, device="iops=2000")))[BLOCK]
    more = figures["wal_written_bytes_per_transaction"]["value"] - figures["wal_bytes_per_transaction"]["value"]
    assert more == pytest.approx(BLOCK / 40)


def test_more_commits_share_a_flush_where_the_device_is_slow(tmp_path: Path) -> None:
    """One more client waits for each flush: 16 clients at 50 requests per second share what two commits shared
    before."""
    path = made(tmp_path / "t.octrace", writes=True, pages=900, facts={"work_clients": "16"})
    written = [
        by_block(predict(Request(path, (BLOCK,), memory=64 * MB, device=device, checkpoint=20.0)))[BLOCK]
        for device in ("iops=50", "iops=100000")
    ]
    each = [
        one["wal_written_bytes_per_transaction"]["value"] - one["wal_bytes_per_transaction"]["value"] for one in written
    ]
    assert each[1] == pytest.approx(4096) and each[0] < 1500


def test_images_that_would_be_compressed_were_not_when_it_was_recorded(tmp_path: Path) -> None:
    """Else the recorded speed would be explained by less WAL than there was, and compression would gain nothing."""
    trace = recorded(made(tmp_path / "t.octrace", writes=True))
    own, base = (Size(BLOCK, 8 * MB, 64 * MB, is_as_recorded=value) for value in (True, False))
    rates, device = simulate(trace, [own, base], 20.0), device_of("mbps=20")
    given = Conditions(trace, own, rates[own], base, rates[base], device, device, 4, 20.0)
    changed = dataclasses.replace(given, images_factor=0.5)
    (was, then), (now, later) = (
        [work(size, rates[size], trace.wal_block, assumed_of(trace), one).wal for one in (given, changed)]
        for size in (own, base)
    )
    assert was is not None and was == then
    assert now is not None and later is not None and later.images == pytest.approx(now.images / 2)


def test_where_linux_limits_the_device_a_flush_is_a_request_and_waits_behind_no_reads(tmp_path: Path) -> None:
    """Two commits share a sync of two requests, the write and the flush: at most as many commits as requests."""
    path = made(tmp_path / "t.octrace", writes=True, pages=900)
    asked = Request(path, (BLOCK,), memory=64 * MB, device="iops=200", checkpoint=20.0)
    plain, throttled = (
        by_block(predict(dataclasses.replace(asked, is_throttled=value)))[BLOCK] for value in (False, True)
    )
    assert 150 < throttled["tps"]["value"] < 200 < 1.2 * throttled["tps"]["value"] < plain["tps"]["value"]
    flushed = throttled["wal_written_bytes_per_transaction"]["value"] - throttled["wal_bytes_per_transaction"]["value"]
    assert flushed == pytest.approx(BLOCK / 2)
