"""The parts of a prediction compared with results computed by hand."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import UsageError
from octavo.hugepages.savings import table_bytes
from octavo.predict.assumptions import Assumptions, Variation, intervals, variations
from octavo.predict.device import Device, device_of
from octavo.predict.five_minutes import Prices, break_even
from octavo.predict.layout import growth, growth_of_all, most_key, row_bytes, troubles
from octavo.predict.memory import memory_of
from octavo.predict.queueing import Station, throughput
from octavo.predict.wal import image_bytes, logged_bytes, record_bytes, wal_of
from octavo.predict.what_if import WhatIf, what_if
from octavo.trace.core_types import Relation
from octavo.trace.wal import Written

SIZES = [1024 << power for power in range(6)]


def relation(kind: str = "r", **values: int) -> Relation:
    """A relation with these values."""
    found = Relation(tablespace=1, database=1, relation=7, kind=kind, blocks=0, tuples=0, tuple_bytes=0, fillfactor=0,
                     name=None)  # fmt: skip
    found.update(values)  # type: ignore[typeddict-item]
    return found


# Blocks of tables and indexes of 100,000 rows as 18.6 made them at each data block (pgbench at scale 1).
def test_pgbench_accounts_have_as_many_rows_a_page_as_postgres_puts_there() -> None:
    accounts = relation(blocks=1640, tuples=100_000)
    rows = {1024: 7, 2048: 15, 4096: 30, 8192: 61, 16384: 123, 32768: 248}
    for block, there in rows.items():
        expected = (61 / 8192) / (there / block)
        assert growth(accounts, 8192, block).likely == pytest.approx(expected)


def test_keys_of_four_bytes_take_as_much_as_they_do() -> None:
    index = relation("i", blocks=276, tuples=100_000)
    likely, least, most = row_bytes(index, 8192) or (0, 0, 0)
    assert least <= 20.3 and most >= 20 and likely == pytest.approx(20.2, abs=0.3)


@given(st.integers(1, 10_000), st.integers(1, 400), st.sampled_from(SIZES), st.sampled_from(SIZES), st.integers(0, 100))
def test_growth_is_bounded_by_its_ends(blocks: int, density: int, own: int, block: int, fill: int) -> None:
    one = relation(blocks=blocks, tuples=blocks * density, fillfactor=fill if fill >= 10 else 0)
    found = growth(one, own, block)
    assert 0 < found.low <= found.high
    assert found.low <= found.likely * 1.0001 and found.likely <= found.high * 1.0001
    if own == block:
        assert found.likely == pytest.approx(1.0)


def test_growth_of_all_is_by_size_and_without_relations_a_guess() -> None:
    accounts, empty = relation(blocks=1640, tuples=100_000), relation(blocks=0)
    assert growth_of_all([accounts, empty], 8192, 1024).likely == growth(accounts, 8192, 1024).likely
    assert growth_of_all([], 8192, 4096).low < 1 < growth_of_all([], 8192, 4096).high


def test_rows_and_keys_that_would_not_fit_are_named() -> None:
    wide = relation(blocks=1000, tuples=2000)  # rows of about 4 kB: TOASTed at 4 kB and less
    assert "TOAST" in " ".join(troubles([wide], 8192, 2048))
    key = relation("i", blocks=1000, tuples=7000)
    assert most_key(1024) == 300 and "keys of about 1032 bytes" in " ".join(troubles([key], 8192, 1024))
    # 26 tuples of 304 bytes per full page: headers included they may have 312 in 1 kB.
    assert not troubles([relation("i", blocks=1000, tuples=26_000, fillfactor=100)], 8192, 1024)
    assert not troubles([relation(blocks=1640, tuples=100_000)], 8192, 1024)
    assert "chunks" in troubles([relation("t", blocks=1000, tuples=4000)], 8192, 4096)[0]


def test_few_pages_do_not_show_how_long_rows_are() -> None:
    """A sequence, a table of one row, the catalog's databases, an index of three entries."""
    few = [relation("S", blocks=1, tuples=1), relation(blocks=1, tuples=1), relation(blocks=1, tuples=5)]
    few.append(relation("i", blocks=2, tuples=3))
    assert not troubles(few, 8192, 1024) and all(row_bytes(one, 8192) is None for one in few)
    assert "exceed" in troubles([relation(blocks=8, tuples=8)], 8192, 1024)[0]


@pytest.mark.parametrize(("block", "megabytes"), [(1024, 1275), (32768, 1067)])
def test_descriptors_are_what_a_server_was_seen_to_map(block: int, megabytes: int) -> None:
    found = memory_of(1024**3, block, 0)
    # About 36 MB exist whatever the buffers are.
    assert found.descriptors / 1024**2 + 1024 + 36 == pytest.approx(megabytes, abs=3)
    assert memory_of(1024**3, block, 100).page_tables_huge < memory_of(1024**3, block, 100).page_tables / 100


@pytest.mark.parametrize(("kernel_page", "huge"), [(4096, 2), (16384, 32), (65536, 512)])
def test_huge_pages_are_those_of_the_kernel_page(kernel_page: int, huge: int) -> None:
    found = memory_of(12 * 1024**3, 8192, 1, kernel_page)
    mapped = found.shared_buffers + found.descriptors
    assert found.page_tables_huge == table_bytes(mapped, huge * 1024**2, kernel_page)


@pytest.mark.parametrize("clients", [1, 2, 7, 50])
def test_balanced_stations_have_the_textbook_throughput(clients: int) -> None:
    # Of M equal stations of demand D: N / (D (N + M - 1)).
    found = throughput([Station("a", 0.01), Station("b", 0.01), Station("c", 0.01)], clients)
    assert found.per_second == pytest.approx(clients / (0.01 * (clients + 2)))
    assert found.latency == pytest.approx(clients / found.per_second)


@given(st.lists(st.floats(1e-5, 1e-1), min_size=1, max_size=4), st.integers(1, 60), st.floats(0, 1), st.integers(1, 16))
def test_throughput_is_within_the_asymptotic_bounds(
    demands: list[float], clients: int, delay: float, servers: int
) -> None:
    stations = [Station(str(place), demand, servers) for place, demand in enumerate(demands)]
    found = throughput(stations, clients, delay)
    assert found.per_second <= servers / max(demands) * 1.000001
    assert found.per_second <= clients / (sum(demands) + delay) * 1.000001
    assert found.per_second >= 1 / (sum(demands) + delay) * 0.999999
    assert all(0 <= used <= 1.000001 for used in found.used.values())
    assert throughput(stations, clients + 1, delay).per_second >= found.per_second * 0.999999


def test_no_station_and_no_delay_is_no_throughput() -> None:
    assert math.isinf(throughput([], 3).per_second)


def test_wal_is_taken_apart_and_put_together_again() -> None:
    images, block, fill = 0.7, 8192, 0.9
    stream = 400 + images * image_bytes(block, fill)
    generated = stream / (1 - 24 / 8192)
    records = record_bytes(generated, 8192, images, block, fill, 5.0)
    assert records == pytest.approx(400)
    again = wal_of(records, images, block, fill, 8192, 4.0)
    assert again.generated == pytest.approx(generated)
    assert again.written == pytest.approx(generated + 2048)
    assert wal_of(records, images, block, fill, 1024, 4.0).headers > again.headers
    assert again.device_written == again.written
    small = wal_of(records, images, block, fill, 1024, 4.0)
    assert small.written - small.generated == pytest.approx(256)
    assert small.device_written - small.generated == pytest.approx(1024)  # a page of 4 kB for each flush
    assert record_bytes(100.0, 8192, 5.0, 8192, 1.0, 3.0) == 72  # more images than fit: records have headers at least


def test_the_rest_of_a_segment_that_was_closed_early_is_no_wal() -> None:
    """archive_timeout closes a segment of 16 MB that has 1 MB of records."""
    wal = Written(60.0, 10_000, 0, 1_000_000, None, 16 * 1024**2, ())
    assert logged_bytes(wal, 8192) == pytest.approx(1_070_000 / (1 - 24 / 8192))
    busy = replace(wal, seconds=2.0, growth_bytes=1_600_000)  # the counters are a second late
    assert logged_bytes(busy, 8192) == 1_600_000
    assert logged_bytes(replace(wal, bytes=0), 8192) == 16 * 1024**2  # a standby counts none


# docs/experiments/oltp-blocks.md, "WAL written against generated": small, 0.8 kB of WAL a transaction, 8 clients.
@pytest.mark.parametrize(
    ("wal_block", "seen"), [(1024, 1.46), (4096, 3.06), (8192, 5.28), (16384, 9.72), (65536, 32.9)]
)
def test_written_over_generated_is_as_it_was_seen(wal_block: int, seen: float) -> None:
    found = wal_of(820.0, 0.0, 8192, 1.0, wal_block, 2.4)
    assert found.written / found.generated == pytest.approx(seen, rel=0.12)


def test_a_device_is_short_of_requests_or_of_bytes() -> None:
    volume = device_of("gp3:3000/125")
    assert volume.seconds(1, 8192) == pytest.approx(1 / 3000)
    assert volume.seconds(1, 256 * 1024) == pytest.approx(256 * 1024 / (125 * 1024**2))
    assert volume.seconds(1, 1024**2) == pytest.approx(1024**2 / (125 * 1024**2))
    assert not device_of(None).is_known and device_of("iops=2000").is_limited
    with pytest.raises(UsageError, match="--device gp9"):
        device_of("gp9")


def test_a_probe_is_a_device(tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    file.write_text(
        '{"requests_per_second_ceiling": 5e4, "bytes_per_second_ceiling": 1e9,'
        ' "latency_line": {"latency_us": 80, "bytes_per_second": 2e9}}'
    )
    found = device_of(str(file))
    assert found.requests == 5e4 and found.waited(2, 8192) == pytest.approx(2 * 80e-6 + 8192 / 2e9)
    assert found.cpu is None  # an earlier version's probe
    file.write_text('{"cpu_us_per_read": 25, ' + file.read_text()[1:])
    assert device_of(str(file)).cpu == pytest.approx(25e-6)
    file.write_text("{}")
    with pytest.raises(UsageError, match="io probe"):
        device_of(str(file))
    with pytest.raises(UsageError, match="cannot be read"):
        device_of(str(tmp_path / "absent.json"))


def test_break_even_is_that_of_the_five_minute_rule() -> None:
    # Prices of 1987: 15 accesses a second for 15,000, a MB of a thousand pages for 5,000: 1000 / 15 * 3 are 200 s.
    disc = Device("disc of 1987", requests=15.0)
    (found,) = break_even([1000 * 1024**3 // (1000 * 1024**2)], disc, None, Prices(15_000.0, 5_000 * 1024.0))
    assert found["seconds"] == pytest.approx(200 * 1.024, rel=0.03)
    assert not break_even([8192], Device("native"), None, Prices(1.0, 1.0))
    (limits,) = break_even([8192], Device("x", requests=1000.0), 8192 * 5000, Prices())
    assert limits["seconds"] == pytest.approx(5.0) and limits["from"] == "limits"


@pytest.mark.parametrize("price", [0.0, -1.0, math.nan, math.inf])
def test_a_price_that_is_not_above_0_is_refused(price: float) -> None:
    with pytest.raises(UsageError, match=r"--memory-price .* above 0"):
        Prices(160.0, price)
    with pytest.raises(UsageError, match=r"--device-price .* above 0"):
        Prices(price, 4.0)


def test_what_if_says_what_may_be_asked() -> None:
    assert what_if(["device=gp3:3000/125", "transactions=1.5"]) == WhatIf(1.5, 1.0, "gp3:3000/125")
    for wrong in (["data"], ["data=0"], ["rows=2x"], ["data=99999999"], ["data=2", "data=4"], ["device=a", "device=b"]):
        with pytest.raises(UsageError, match="write transactions"):
            what_if(wrong)


def test_intervals_add_up_and_name_the_widest() -> None:
    varied = [Variation("fill", "image_fill", 0.85, 1.0), Variation("copying", "cpu_byte", 1e-10, 6e-10)]

    def figures(one: Assumptions) -> dict[str, float | None]:
        return {"x": 100 * one.image_fill + 1e11 * one.cpu_byte, "unknown": None}

    found = intervals(figures, Assumptions(), varied)
    assert found["unknown"] is None
    one = found["x"]
    assert one is not None and one.because == "copying"
    assert one.low == pytest.approx(120 - math.hypot(10, 15)) and one.high == pytest.approx(120 + math.hypot(5, 35))


def test_an_interval_of_a_share_ends_at_the_whole() -> None:
    varied = [Variation("fill", "image_fill", 0.9, 1.0), Variation("waits", "waits", 0.0, 1.0)]

    def figures(one: Assumptions) -> dict[str, float | None]:
        both = one.image_fill - 0.05 * (0.5 - one.waits)
        return {"hit_ratio": both, "tps_ratio": both}

    found = {name: one.high for name, one in intervals(figures, Assumptions(), varied).items() if one is not None}
    assert found == {"hit_ratio": 1.0, "tps_ratio": pytest.approx(0.95 + math.hypot(0.05, 0.025))}
    assert found["tps_ratio"] > 1


def test_commits_that_share_a_flush_are_assumed_where_nobody_counted() -> None:
    named = {one.name: one for one in variations(None, 16, 1)}
    assert named["commits that share a flush"].high == 16
    assert "part of a page that accesses need" not in named
    assert "part of a page that accesses need" in {one.name for one in variations(2.0, 16, 3)}
    assert replace(Assumptions(), layout=2).layout == 2
