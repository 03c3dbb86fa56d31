"""Volumes by name, their credits, and the thread that enforces them, without waiting."""

import errno
import itertools
import json
import math
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import OctavoError, UsageError
from octavo.host.block_limit import DeviceLimits
from octavo.knobs import device, enforcer
from octavo.knobs.credits import CreditMeter, DeviceTotals, shared
from octavo.knobs.enforcer import PERIOD_SECONDS, Enforcer
from octavo.knobs.probe import main, slope
from octavo.knobs.volume_types import VolumeType, check_device, parse_device

_MB = 1024**2


def volume(level: str) -> VolumeType:
    parsed = parse_device(level)
    assert parsed is not None
    return parsed


# ── Levels ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("size", "baseline", "burst", "throughput", "with_credits"),
    [  # Amazon EBS User Guide, General Purpose SSD volumes
        (1, 100, 3000, 128, 128),
        (33, 100, 3000, 128, 128),
        (100, 300, 3000, 128, 128),
        (170, 510, 3000, 128, 128),
        (171, 513, 3000, 128.25, 250),
        (250, 750, 3000, 187.5, 250),
        (333, 999, 3000, 249.75, 250),
        (334, 1002, 3000, 250, 250),
        (600, 1800, 3000, 250, 250),
        (999, 2997, 3000, 250, 250),
        (1000, 3000, None, 250, 250),
        (5334, 16000, None, 250, 250),
        (16384, 16000, None, 250, 250),
    ],
)
def test_gp2(size: int, baseline: float, burst: float | None, throughput: float, with_credits: int) -> None:
    made = volume(f"gp2:{size}")
    assert made.baseline == DeviceLimits(baseline, throughput * _MB)
    assert (made.burst.requests if made.burst else None) == burst
    assert made.highest.bytes == with_credits * _MB
    assert made.largest_request == 256 * 1024
    if made.burst:
        assert made.burst.credits == made.burst.bucket == 5.4e6


def test_levels_have_one_spelling() -> None:
    assert check_device("mbps=125, iops=3000") == "iops=3000,mbps=125"
    assert check_device("gp2:100,credits=5000") == "gp2:100,credits=5000"
    assert check_device("gp2:0600") == "gp2:600"
    assert parse_device("native") is None
    assert volume("loop").highest == DeviceLimits()
    assert volume("iops=500").baseline == DeviceLimits(500.0, None)
    # 1000 / (8.5 + 60,000 / 7,200 / 2) = 78.9 a second, in whole requests of a slice of 0.1 s.
    assert volume("hdd").baseline.requests == 80


@pytest.mark.parametrize(
    "level",
    ["", "gp2", "gp2:0", "gp2:20000", "gp2:100,credits=6000000", "gp3:100/125", "gp3:3000/1000", "gp3:3000", "iops=0",
     "iops=5,iops=6", "mbps=", "fast", "iops=10,mbps=5,x=1"],
)  # fmt: skip
def test_what_is_no_volume_is_refused(level: str) -> None:
    with pytest.raises(UsageError):
        check_device(level)


@pytest.mark.parametrize("level", ["gp2:1000,credits=5000", "gp2:2000,credits=0"])
def test_a_volume_without_a_burst_has_no_credits(level: str) -> None:
    with pytest.raises(UsageError, match="a gp2 volume of 1000 GB or more has no credits") as refused:
        check_device(level)
    assert str(refused.value).endswith(f"write {level.partition(',')[0]}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("level", ["raid0:6/64kB", "md0", "stripe:4", "dm-1"])
def test_what_is_meant_as_an_array_is_told_the_way_out(level: str) -> None:
    with pytest.raises(UsageError, match=r"put OCTAVO_HOME on one .* count-stripes$") as refused:
        check_device(level)
    assert "\n" not in str(refused.value)


def test_what_probes_should_find() -> None:
    assert device.expected(DeviceLimits()) == {}
    assert device.expected(volume("gp3:3000/125").baseline) == {
        "reads_per_second": 3000.0,
        "writes_per_second": 3000.0,
        "read_bytes_per_second": 125 * _MB,
        "written_bytes_per_second": 125 * _MB,
    }
    assert device.expected(DeviceLimits(2000, 4096 * 100))["reads_per_second"] == 100
    assert device.expected(DeviceLimits(None, 40 * _MB)) == {
        "read_bytes_per_second": 40 * _MB,
        "written_bytes_per_second": 40 * _MB,
    }


def test_which_cells_need_a_volume() -> None:
    assert not device.needs_volume({})
    assert not device.needs_volume({"device": "native", "filesystem": "native"})
    assert device.needs_volume({"device": "loop"})
    assert device.needs_volume({"filesystem": "xfs/64kB"})
    assert device.volume_bytes(10 * 1024**3) > 11 * 1024**3


# ── Credits ───────────────────────────────────────────────────────────────────────────────────


def test_a_full_bucket_lasts_as_long_as_published() -> None:
    """Burst duration = credits / (burst − baseline): 75 minutes for 600 GB, half an hour for 1 GB or so."""
    for level, minutes in (("gp2:600", 75.0), ("gp2:100", 5.4e6 / 2700 / 60)):
        meter = CreditMeter(volume(level))
        seconds = 0
        while meter.allowed(1.0).requests == 3000.0:
            meter.account(1.0, DeviceTotals(reads=3000.0))
            seconds += 1
        assert seconds == pytest.approx(minutes * 60, abs=2)


@given(
    level=st.sampled_from(["gp2:50", "gp2:600,credits=2000", "gp2:999,credits=0"]),
    demands=st.lists(st.floats(0, 6000), min_size=1, max_size=200),
    period=st.floats(0.05, 2.0),
)
def test_no_more_is_served_than_was_earned(level: str, demands: list[float], period: float) -> None:
    made = volume(level)
    assert made.burst is not None and made.baseline.requests is not None
    meter = CreditMeter(made)
    served = 0.0
    for demand in demands:
        allowed = meter.allowed(period).requests
        assert allowed is not None
        assert made.baseline.requests * (1 - 1e-9) <= allowed <= made.burst.requests
        now = min(demand, allowed) * period
        served += now
        meter.account(period, DeviceTotals(reads=now / 2, writes=now / 2))
        assert -1e-6 <= meter.credits <= made.burst.bucket
    limit = made.burst.credits + made.baseline.requests * period * len(demands)
    assert served <= limit * (1 + 1e-9) + 1e-6


def test_idle_time_earns_credits_up_to_the_bucket() -> None:
    meter = CreditMeter(volume("gp2:600,credits=0"))
    assert meter.allowed(1.0).requests == 1800.0
    meter.account(1.0, DeviceTotals())
    assert meter.credits == 1800.0
    assert meter.allowed(1.0).requests == 3000.0
    meter.account(1e6, DeviceTotals())
    assert meter.credits == 5.4e6


def test_what_the_kernel_let_through_is_paid_back() -> None:
    meter = CreditMeter(volume("gp2:100,credits=0"))
    meter.account(1.0, DeviceTotals(reads=400.0))
    assert meter.allowed(1.0).requests == 200.0
    meter.account(1.0, DeviceTotals(reads=200.0))
    assert meter.allowed(1.0).requests == 300.0


def test_throughput_falls_with_the_credits_between_170_and_334_gb() -> None:
    meter = CreditMeter(volume("gp2:200,credits=100"))
    assert meter.allowed(1.0).bytes == 250 * _MB
    meter.account(1.0, DeviceTotals(reads=3000.0))
    assert meter.allowed(1.0).bytes == 150 * _MB  # 600 requests of 256 KiB


# ── Reads and writes share a volume's limits ──────────────────────────────────────────────────


def test_one_direction_alone_has_everything() -> None:
    reads, writes = shared(DeviceLimits(3000.0, 100.0), DeviceTotals(reads=3000.0, read_bytes=100.0), 1.0)
    assert reads == DeviceLimits(3000.0, 100.0)
    assert writes == DeviceLimits(1500.0, 50.0)


@given(total=st.floats(1, 1e5), reading=st.floats(0, 2e5), writing=st.floats(0, 2e5))
def test_both_together_have_no_more_than_the_volume(total: float, reading: float, writing: float) -> None:
    """Whatever is requested, the limits converge within a few periods to the volume's total."""
    served = DeviceTotals()
    for _ in range(4):
        reads, writes = shared(DeviceLimits(total, None), served, 1.0)
        assert reads.requests is not None and writes.requests is not None
        assert reads.requests >= total / 2 and writes.requests >= total / 2
        assert reads.bytes is None
        served = DeviceTotals(reads=min(reading, reads.requests), writes=min(writing, writes.requests))
    assert served.reads + served.writes <= max(total, min(reading, total / 2) + min(writing, total / 2)) * (1 + 1e-9)
    wanted = reading + writing
    assert served.reads + served.writes >= min(wanted, total) * (1 - 1e-9)


# ── The enforcer ──────────────────────────────────────────────────────────────────────────────


class Device:
    """A device that serves as much as it is permitted, on a clock that only `run` advances."""

    def __init__(self) -> None:
        self.now = 0.0
        self.served = DeviceTotals()
        self.limits: list[tuple[float, DeviceLimits, DeviceLimits]] = []

    def limit(self, reads: DeviceLimits, writes: DeviceLimits) -> None:
        self.limits.append((self.now, reads, writes))

    def read_for(self, seconds: float) -> None:
        allowed = self.limits[-1][1].requests
        assert allowed is not None
        self.now += seconds
        self.served = DeviceTotals(self.served.reads + allowed * seconds, 0.0, 0.0, 0.0)


def used_up() -> tuple[Device, Enforcer]:
    """A volume of 300 requests per second after ten seconds of reading, and its enforcer."""
    slow = Device()
    keeper = Enforcer(volume("gp2:100,credits=5400"), slow, lambda: slow.served, lambda: slow.now)
    keeper.begin()
    while slow.now < 10.0:
        slow.read_for(PERIOD_SECONDS)
        keeper.step()
    return slow, keeper


def test_a_burst_ends_while_the_trial_runs() -> None:
    slow, keeper = used_up()
    first, last = slow.limits[0][1], slow.limits[-1][1]
    assert first.requests == 3000.0
    assert last.requests == pytest.approx(300.0)
    facts = keeper.facts()
    assert facts["credits_spent_after_seconds"] == pytest.approx(2.0, abs=2 * PERIOD_SECONDS)
    assert facts["credits_left"] == 0
    assert slow.served.reads == pytest.approx(5400 + 300 * 10, rel=0.02)


def test_credits_spent_before_the_trial_do_not_count() -> None:
    """As when the WAL regime `steady` was reached under the limits."""
    slow, keeper = used_up()
    keeper.begin()
    assert slow.limits[-1][1].requests == 3000.0
    assert keeper.facts() == {"credits_left": 5400, "credits_spent_after_seconds": None}


def test_limits_are_not_written_when_they_hardly_move() -> None:
    steady = Device()
    keeper = Enforcer(volume("gp3:3000/125"), steady, lambda: steady.served, lambda: steady.now)
    keeper.begin()
    for _ in range(50):
        steady.read_for(PERIOD_SECONDS)
        keeper.step()
    assert len(steady.limits) == 2  # at first, and when it became clear that nothing is written


def test_a_clock_that_stands_still_is_borne() -> None:
    steady = Device()
    keeper = Enforcer(volume("gp2:100"), steady, lambda: steady.served, lambda: steady.now)
    keeper.begin()
    keeper.step()
    assert len(steady.limits) == 1


def test_a_pause_holds_everything_back_and_is_no_time_for_credits() -> None:
    slow = Device()
    keeper = Enforcer(volume("gp2:100,credits=5400"), slow, lambda: slow.served, lambda: slow.now)
    keeper.begin()
    slow.read_for(PERIOD_SECONDS)
    keeper.step()
    before, left = slow.limits[-1][1:], keeper.credits()
    keeper.pause()
    keeper.pause()
    assert slow.limits[-1][1:] == (DeviceLimits(1, 1), DeviceLimits(1, 1))
    slow.now += 60.0
    keeper.step()
    assert slow.limits[-1][1].requests == 1
    keeper.resume()
    keeper.resume()
    assert slow.limits[-1][1:] == before
    assert keeper.credits() == left
    assert len([one for one in slow.limits if one[1].requests == 1]) == 1


def test_the_thread_tells_of_its_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforcer, "PERIOD_SECONDS", 0.001)
    failed = threading.Event()

    def counters() -> Iterator[DeviceTotals]:
        yield DeviceTotals()
        failed.set()
        raise OSError(19, "No such device")

    reading = counters()
    told: Callable[[], DeviceTotals] = reading.__next__
    with pytest.raises(OctavoError, match="No such device"), Enforcer(volume("gp2:100"), Device(), told):
        assert failed.wait(10)


# ── The probe ─────────────────────────────────────────────────────────────────────────────────


@given(rate=st.floats(50, 5000), lump=st.floats(0.05, 0.1))
def test_lumps_do_not_bias_the_slope(rate: float, lump: float) -> None:
    times = [math.ceil(number / rate / lump) * lump for number in range(int(rate))]
    assert slope(times) == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("write", [False, True])
def test_a_request_that_fails_is_no_rate(
    write: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of two threads reads a bad sector: the rate of the other one is not the device's."""
    (tmp_path / "probe").write_bytes(bytes(65536))
    meet = itertools.count()

    def call(*_: object) -> int:
        if next(meet) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return 4096

    monkeypatch.setattr(os, "pwritev" if write else "preadv", call)
    asked = {"rate": {"size": 4096, "depth": 2, "seconds": 0.1, "write": write}}
    with pytest.raises(SystemExit, match=r"probe: Input/output error"):
        main(str(tmp_path / "probe"), json.dumps([asked]))
    assert capsys.readouterr().out == ""
