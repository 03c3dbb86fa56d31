"""Predictions from traces whose results are known, and traces that permit no prediction."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.predict.traces import BLOCK, MB, RECORDS, made
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.errors import HostError, UsageError
from octavo.predict.after_checkpoint import since_checkpoint
from octavo.predict.against import best_blocks, chosen, compare, parse_where
from octavo.predict.conditions import Conditions
from octavo.predict.counts import COUNTS
from octavo.predict.device import device_of
from octavo.predict.five_minutes import Prices
from octavo.predict.image_correction import correction, transactions_before
from octavo.predict.model import assumed_of, work
from octavo.predict.page import render
from octavo.predict.predict import Request, predict
from octavo.predict.progress import Progress
from octavo.predict.rates import Rates
from octavo.predict.recorded import recorded
from octavo.predict.render_against import best_line
from octavo.predict.scatter import scatter
from octavo.predict.simulation import simulate
from octavo.predict.size import Size, simulated_server
from octavo.predict.what_if import WhatIf
from octavo.trace import files


def by_block(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Figures by data block."""
    return {row["data_block_bytes"]: row["figures"] for row in document["sizes"]}


def test_evenly_read_rows_miss_as_often_at_every_size(tmp_path: Path) -> None:
    """Uniform accesses of 31 MB, 8 MB of buffers: a quarter of them hits, at any page size (except for rows per
    page)."""
    found = by_block(predict(Request(made(tmp_path / "t.octrace"))))
    share = 8 * MB / (4000 * BLOCK)
    for block, figures in found.items():
        rows = {1024: 56, 2048: 60, 4096: 60, 8192: 61, 16384: 61.5, 32768: 62}[block] / 61
        assert figures["hit_ratio"]["value"] == pytest.approx(share * rows, abs=0.02), block
        assert figures["reads_per_transaction"]["low"] < 1 - share * rows < figures["reads_per_transaction"]["high"]


def test_where_half_of_each_pair_is_hot_smaller_pages_hold_it_all(tmp_path: Path) -> None:
    """Only even pages are looked up: half of a page of 16 kB, and so, by self-similarity, half of one of 8 kB."""
    found = by_block(predict(Request(made(tmp_path / "t.octrace", hot=True, transactions=40_000))))
    reads = {block: figures["reads_per_transaction"]["value"] for block, figures in found.items()}
    assert reads[16384] > reads[8192] > reads[4096] and reads[4096] < 0.1 < reads[8192]


def test_a_device_that_is_short_of_bytes_wants_small_pages(tmp_path: Path) -> None:
    asked = Request(made(tmp_path / "t.octrace"), memory=10 * MB, device="mbps=2")
    document = predict(asked)
    found = by_block(document)
    assert found[4096]["tps_ratio"]["value"] > 1.5 > found[32768]["tps_ratio"]["value"]
    assert found[8192]["tps_ratio"]["value"] == pytest.approx(1.0)
    # 2 MB per second, three quarters of 8 kB per transaction
    assert found[8192]["tps"]["value"] == pytest.approx(2 * MB / (0.74 * BLOCK), rel=0.1)
    advice = document["recommendation"]
    assert (
        advice["is_settled"]
        and advice["data_block_bytes"] < BLOCK
        and "data blocks are predicted" in advice["sentence"]
    )
    assert any(one["change"] == "twice the device's limits" for one in advice["cheaper"])


def test_a_block_is_compared_with_the_recorded_one_also_where_that_is_not_asked_for(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace")
    asked = Request(path, data_blocks=(4096, 32768), memory=10 * MB, device="mbps=2")
    advice = predict(asked)["recommendation"]
    assert advice["gain"]["value"] > 1.5 and advice["sentence"].startswith("4 kB data blocks are predicted to give")
    without_speed = made(tmp_path / "w.octrace", facts={"work_cpu_seconds": None})
    sentence = predict(Request(without_speed, data_blocks=(4096, 32768)))["recommendation"]["sentence"]
    assert sentence.startswith("Of these 4 kB is predicted to be best") and "8 kB is not among them" in sentence


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


def test_the_recorded_speed_comes_out_at_the_recorded_size(tmp_path: Path) -> None:
    for writes in (False, True):
        path = made(tmp_path / f"{writes}.octrace", writes=writes)
        found = by_block(predict(Request(path, checkpoint=20.0 if writes else None)))
        assert found[8192]["tps"]["value"] == pytest.approx(1000, rel=0.001)


def test_a_faster_device_than_the_recorded_one_is_faster(tmp_path: Path) -> None:
    """The recorded transactions waited for the recorded device's reads, and need not wait for them once more."""
    asked = Request(made(tmp_path / "t.octrace"), (BLOCK,), memory=10 * MB, recorded_device="iops=3000")
    same, faster = (
        by_block(predict(dataclasses.replace(asked, device=device)))[BLOCK]["tps"]["value"]
        for device in ("iops=3000", "iops=6000")
    )
    assert same == pytest.approx(1000, rel=0.05)
    assert same < faster < 1.1 * same


def test_more_data_of_the_same_skew_hits_less_and_more_clients_do_more(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace")
    before = by_block(predict(Request(path)))[8192]
    more = by_block(predict(Request(path, what_if=WhatIf(data=4.0))))[8192]
    assert more["hit_ratio"]["value"] == pytest.approx(before["hit_ratio"]["value"] / 4, rel=0.1)
    twice = by_block(predict(Request(path, what_if=WhatIf(transactions=2.0))))[8192]
    assert twice["tps"]["value"] > 1.1 * before["tps"]["value"]
    assert predict(Request(path, what_if=WhatIf(transactions=0.1)))["conditions"]["clients"] == 1


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


def test_without_cpu_and_without_changes_it_says_what_is_not_predicted(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", facts={"work_cpu_seconds": None}, logged=2e7,
                settings={"checkpoint_timeout": "10s"})  # fmt: skip
    document = predict(Request(path))
    found = by_block(document)[4096]
    assert found["tps"] is None and found["wal_bytes_per_transaction"] is None
    told = " ".join(document["limitations"])
    assert "TPS is not predicted" in told and "no page changes" in told
    assert "query plans are not predicted" in document["limitations"][0]
    assert document["recommendation"]["by"] == "read_bytes_per_transaction"


@pytest.mark.parametrize(
    ("made_as", "asked", "reason"),
    [
        ({"transactions": 100}, {}, "100 transactions"),
        ({"lost": 1000}, {}, "lacks"),
        ({"finish": False}, {}, "is truncated"),
        ({"writes": True, "settings": {"checkpoint_timeout": "5min"}}, {}, "no whole checkpoint cycle of 300 s"),
        ({"writes": True}, {"checkpoint": 60.0}, "shorter than a checkpoint cycle of 60 s"),
        ({"settings": {"shared_buffers": "24MB"}, "transactions": 2000}, {}, "working set is not covered"),
    ],
)
def test_nothing_is_told_from_what_says_too_little(
    tmp_path: Path, made_as: dict[str, Any], asked: dict[str, Any], reason: str
) -> None:
    path = made(tmp_path / "t.octrace", **made_as)
    with pytest.raises(HostError, match=reason):
        predict(Request(path, **asked))


def test_the_size_of_other_databases_than_the_recorders_is_unknown(tmp_path: Path) -> None:
    """Less than half of 1,000 pages are seen, and all have room in the buffers: if there are no more than these."""
    few: dict[str, Any] = {"pages": 1000, "transactions": 600}
    found = by_block(predict(Request(made(tmp_path / "known.octrace", **few), (BLOCK,))))
    assert found[BLOCK]["hit_ratio"]["value"] > 0.99
    with pytest.raises(HostError, match="the working set is not covered"):
        predict(Request(made(tmp_path / "few.octrace", **few, database=2), (BLOCK,)))
    document = predict(Request(made(tmp_path / "other.octrace", database=2), (BLOCK,)))
    assert any("100% of the accesses are to other databases" in line for line in document["limitations"])
    assert not any("other databases" in line for line in predict(Request(tmp_path / "known.octrace"))["limitations"])


def test_nothing_is_told_from_the_accesses_of_one_relation(tmp_path: Path) -> None:
    files.cut(made(tmp_path / "t.octrace"), tmp_path / "part", 0, None, 7)
    with pytest.raises(HostError, match="only the accesses of the relation 7"):
        predict(Request(tmp_path / "part"))


def test_what_cannot_be_asked_is_a_usage_error(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace")
    with pytest.raises(UsageError, match="leaves nothing"):
        predict(Request(path, memory=4 * MB))
    with pytest.raises(UsageError, match="limits of the device besides its price"):
        predict(Request(path, prices=Prices(160.0, 4.0)))


def test_a_later_version_of_the_format_is_refused_with_3(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace")
    damaged = bytearray(path.read_bytes())
    damaged[4] = 99
    path.write_bytes(bytes(damaged))
    result = CliRunner().invoke(app, ["predict", str(path)])
    assert isinstance(result.exception, HostError) and result.exception.exit_code == 3


def test_the_command_writes_a_page_and_json(tmp_path: Path) -> None:
    path, page = made(tmp_path / "t.octrace"), tmp_path / "p.html"
    result = CliRunner().invoke(
        app, ["predict", str(path), "--memory", "12MB", "--device", "iops=500", "--format", "json", "-o", str(page)]
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["schema_version"] == 1 and len(document["sizes"]) == 6
    assert "<svg" in page.read_text() and "Query plans" not in page.read_text()
    text = CliRunner().invoke(app, ["predict", str(path), "--data-block", "4kB,8kB", "--wal-block", "8kB,64kB"])
    assert text.exit_code == 0 and "64 kB WAL" in " ".join(text.output.split())


def test_a_device_may_have_no_readahead(tmp_path: Path) -> None:
    """read_ahead_kb is 0 on some devices, and octavo trace simulate takes it as well."""
    path = made(tmp_path / "t.octrace")
    asked = ["predict", str(path), "--memory", "10MB", "--data-block", "8kB", "--readahead", "0kB", "--format", "json"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.exception
    (row,) = json.loads(result.output)["sizes"]
    figures = row["figures"]
    read = figures["device_read_bytes_per_transaction"]["value"]
    assert read == pytest.approx(BLOCK * figures["device_reads_per_transaction"]["value"], rel=0.05)


def test_reads_from_a_probed_device_take_the_cpu_that_was_probed(tmp_path: Path) -> None:
    path, probe = made(tmp_path / "t.octrace"), tmp_path / "probe.json"

    def with_cpu(**measured: float) -> dict[str, Any]:
        probe.write_text(
            json.dumps({"requests_per_second_ceiling": 1e6, "bytes_per_second_ceiling": 1e10, "latency_line": None}
                       | measured)
        )  # fmt: skip
        return predict(Request(path, memory=12 * MB, device=str(probe)))

    little, much, unknown = with_cpu(cpu_us_per_read=10), with_cpu(cpu_us_per_read=30), with_cpu()

    def figure(document: dict[str, Any], block: int, name: str) -> float:
        return by_block(document)[block][name]["value"]

    def more(block: int, name: str) -> float:
        return figure(much, block, name) - figure(little, block, name)

    reads = [figure(little, block, "device_reads_per_transaction") for block in (8192, 1024)]
    assert reads[1] < 0.98 * reads[0]
    cpu = more(1024, "cpu_us_per_transaction") - more(8192, "cpu_us_per_transaction")
    assert cpu == pytest.approx(2.0 * (30 - 10) * (reads[1] - reads[0]), rel=0.01)
    said = [any("the CPU time of a read" in line for line in one["limitations"]) for one in (much, unknown)]
    assert said == [False, True]


def test_names_in_a_page_are_escaped(tmp_path: Path) -> None:
    document = predict(Request(made(tmp_path / "t.octrace")))
    document["sizes"][0]["troubles"] = ["<script>alert(1)</script>"]
    assert "<script>" not in render(document)


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


def test_a_private_volume_without_limits_is_the_machine_s_own_device(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace")
    trials = [trial("8kB", device=device, tps=700.0, device_read_requests_per_transaction=0.7)
              for device in ("native", "loop")]  # fmt: skip
    found = compare(Request(path, device="iops=500"), {"trials": trials}, {}, 15 * MB)
    tps = {one["device"]: one["predicted"] for one in found["points"] if one["metric"] == "tps"}
    assert tps["loop"] == tps["native"]
    assert [one["device"] for one in found["points"] if one["metric"].startswith("device_")] == ["loop"]
    assert {row["device"] for row in found["summary"]} == {"native"}


def test_images_of_a_cycle_are_read_off_the_first_one() -> None:
    rates = Rates("merged", {}, 0.0, True, 0.0, 0.0, ((100.0, 80.0), (200.0, 120.0)))
    assert [rates.images(count) for count in (50.0, 100.0, 150.0, 400.0)] == [0.8, 0.8, pytest.approx(100 / 150), 0.5]
    assert Rates("merged", {}, 0.0, True, 0.0, 0.0, ()).images(10.0) is None


def test_transactions_follow_the_lookups_that_were_counted_with_them(tmp_path: Path) -> None:
    """20,000 accesses; the server counted 22,000 lookups and 22,000 transactions meanwhile, a second late."""
    path = made(tmp_path / "t.octrace", facts={"work_lookups": 22_000, "work_transactions": 22_000})
    assert predict(Request(path))["recorded"]["transactions"] == pytest.approx(20_000)


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


def test_a_part_of_a_checkpoint_cycle_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """Of 20 s two cycles of 8 s are whole; in each the 8,000 transactions change all of 900 pages."""
    path = made(tmp_path / "t.octrace", writes=True, pages=900)
    found = by_block(predict(Request(path, (BLOCK,), memory=64 * MB, checkpoint=8.0)))[BLOCK]
    assert found["checkpoint_bytes_per_transaction"]["value"] == pytest.approx(900 * BLOCK / 8000, rel=0.06)


def test_wal_takes_room_in_the_page_cache_until_its_files_are_written_over(tmp_path: Path) -> None:
    def reads(name: str, logged: int, **settings: str) -> float:
        path = made(tmp_path / name, writes=True, logged=logged, settings=settings)
        asked = Request(path, data_blocks=(8192,), memory=60 * MB, until_checkpoint=True, checkpoint=20.0)
        return by_block(predict(asked))[8192]["device_read_bytes_per_transaction"]["value"]

    little, much = reads("little", 40 * MB), reads("much", 240 * MB)
    assert much > 1.1 * little
    for name, text in (("max_wal_size", "2MB"), ("wal_level", "minimal")):
        assert reads(name, 240 * MB, **{name: text}) < (little + much) / 2


def test_reads_that_a_recording_had_not_are_unknown_without_a_device(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", facts={"host_memory_bytes": 64 * 1024 * MB}, transactions=60_000)
    document = predict(Request(path, memory=12 * MB))
    assert by_block(document)[8192]["tps"] is None
    assert any("is unknown" in line for line in document["limitations"])
    assert by_block(predict(Request(path, memory=12 * MB, device="iops=1000")))[8192]["tps"] is not None


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


def test_images_follow_the_transactions_that_were_counted(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", writes=True, before=0)
    asked = Request(path, (BLOCK,), checkpoint=20.0, until_checkpoint=True, transactions={BLOCK: 4_000.0})
    assert by_block(predict(asked))[BLOCK]["full_page_images_per_transaction"]["value"] == pytest.approx(0.63, abs=0.03)


def test_speed_on_a_machine_that_others_use_is_not_compared(tmp_path: Path) -> None:
    request = Request(made(tmp_path / "t.octrace"))
    foreign = {"status": "invalid", "facts": {"rule": "foreign_cpu"}}
    trials = [
        {**trial(block, device, tps=700.0), **foreign} for block in ("8kB", "32kB") for device in ("native", "iops=500")
    ]
    found = compare(request, {"trials": trials}, {}, disturbed=True)
    assert {one["device"] for one in found["points"] if one["metric"] == "tps"} == {"iops=500"}


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


def test_the_run_to_compare_with_is_in_the_store_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_STORE", "http://elsewhere")
    asked = CliRunner().invoke(app, ["predict", "t.octrace", "--against", "last"])
    assert isinstance(asked.exception, UsageError) and "OCTAVO_STORE: write postgresql://" in str(asked.exception)
