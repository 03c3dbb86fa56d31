"""Predictions from traces whose results are known, and traces that permit no prediction."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.predict.traces import BLOCK, MB, by_block, made
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.errors import HostError, UsageError
from octavo.predict import layout
from octavo.predict.five_minutes import Prices
from octavo.predict.layout import row_bytes
from octavo.predict.page import render
from octavo.predict.predict import Request, predict
from octavo.predict.what_if import WhatIf
from octavo.trace import files
from octavo.trace.core_types import Relation


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


def test_the_recorded_speed_comes_out_at_the_recorded_size(tmp_path: Path) -> None:
    for writes in (False, True):
        path = made(tmp_path / f"{writes}.octrace", writes=writes)
        found = by_block(predict(Request(path, checkpoint=20.0 if writes else None)))
        assert found[8192]["tps"]["value"] == pytest.approx(1000, rel=0.001)


def test_the_recorded_speed_is_not_that_with_probes(tmp_path: Path) -> None:
    """In slices 20,000 transactions in 19 s, with the pauses 30,000 in 20 s."""
    facts = {"work_transactions": 30_000, "work_lookups": 30_000}
    document = predict(Request(made(tmp_path / "t.octrace", pause=True, facts=facts)))
    assert document["recorded"]["tps"] == pytest.approx(20_000 / 19, rel=0.001)
    assert by_block(document)[8192]["tps"]["value"] == pytest.approx(1500, rel=0.001)


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
        # The doctor predicts as well (--predict), and has no --checkpoint.
        ({"writes": True, "settings": {"checkpoint_timeout": "5min"}}, {},
         "no whole checkpoint cycle of 300 s .*give octavo predict the length of a cycle: --checkpoint"),
        ({"writes": True}, {"checkpoint": 60.0}, "shorter than a checkpoint cycle of 60 s"),
        ({"settings": {"shared_buffers": "24MB"}, "transactions": 2000}, {}, "working set is not covered"),
    ],
)  # fmt: skip
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
    with pytest.raises(UsageError, match=r"^--recorded-device gp9: "):
        predict(Request(tmp_path / "absent.octrace", recorded_device="gp9"))
    with pytest.raises(UsageError, match=r"^--what-if device gp9: "):
        predict(Request(tmp_path / "absent.octrace", what_if=WhatIf(device="gp9")))
    with pytest.raises(UsageError, match="limits of the device besides its price"):
        predict(Request(path, prices=Prices(160.0, 4.0)))


@pytest.mark.parametrize("known", [{}, {"host_memory_bytes": 64 * MB}])
def test_memory_may_be_less_than_the_recorded_buffers(tmp_path: Path, known: dict[str, Any]) -> None:
    path = made(tmp_path / "t.octrace", facts=known)  # 8 MB of shared_buffers
    found = by_block(predict(Request(path, (BLOCK,), shared_buffers=(2 * MB,), memory=6 * MB)))[BLOCK]
    assert found["device_reads_per_transaction"]["value"] > 0


def test_a_later_version_of_the_format_is_refused_with_3(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace")
    later = bytearray(path.read_bytes())
    later[4] = 99
    later[32:36] = _crc32c(bytes(later[:32])).to_bytes(4, "little")
    path.write_bytes(later)
    result = CliRunner().invoke(app, ["predict", str(path)])
    assert isinstance(result.exception, HostError) and result.exception.exit_code == 3
    assert "unsupported trace format version 99" in str(result.exception) and "record again" in str(result.exception)
    with pytest.raises(UsageError, match="cannot be read"):  # the name is no version of the format
        predict(Request(tmp_path / "version.octrace"))


def _crc32c(header: bytes) -> int:
    """The checksum of a frame's header (RFC 3720, appendix B.4)."""
    found = 0xFFFFFFFF
    for byte in header:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF


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


def test_many_relations_are_not_measured_for_every_assumption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server has thousands of relations: their sizes are computed once for each simulated server."""
    asked = list[int]()

    def counted(one: Relation, block: int) -> tuple[float, float, float] | None:
        asked.append(block)
        return row_bytes(one, block)

    monkeypatch.setattr(layout, "row_bytes", counted)
    found = by_block(predict(Request(made(tmp_path / "t.octrace"), (4096,))))
    assert found[4096]["database_bytes"]["value"] == pytest.approx(4000 * BLOCK * 61 / 60, rel=0.001)
    assert 0 < len(asked) < 60


def test_names_in_a_page_are_escaped(tmp_path: Path) -> None:
    document = predict(Request(made(tmp_path / "t.octrace")))
    document["sizes"][0]["troubles"] = ["<script>alert(1)</script>"]
    assert "<script>" not in render(document)


def test_transactions_follow_the_lookups_that_were_counted_with_them(tmp_path: Path) -> None:
    """20,000 accesses; the server counted 22,000 lookups and 22,000 transactions meanwhile, a second late."""
    path = made(tmp_path / "t.octrace", facts={"work_lookups": 22_000, "work_transactions": 22_000})
    assert predict(Request(path))["recorded"]["transactions"] == pytest.approx(20_000)


def test_lookups_in_temporary_tables_are_not_missing_from_the_trace(tmp_path: Path) -> None:
    """Of 50,000 lookups 30,000 are of pages that no trace has: all transactions were recorded."""
    facts = {"work_lookups": 50_000, "work_temporary_lookups": 30_000, "work_transactions": 20_000}
    path = made(tmp_path / "t.octrace", facts=facts)
    assert predict(Request(path))["recorded"]["transactions"] == pytest.approx(20_000)


def test_reads_that_a_recording_had_not_are_unknown_without_a_device(tmp_path: Path) -> None:
    path = made(tmp_path / "t.octrace", facts={"host_memory_bytes": 64 * 1024 * MB}, transactions=60_000)
    document = predict(Request(path, memory=12 * MB))
    assert by_block(document)[8192]["tps"] is None
    assert any("is unknown" in line for line in document["limitations"])
    assert by_block(predict(Request(path, memory=12 * MB, device="iops=1000")))[8192]["tps"] is not None
