"""The conclusions from curves whose result is known; and the probe on a real file."""

import os
import random
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import HostError, UsageError
from octavo.io.curves import find_drop, latency_line, smallest_reaching
from octavo.io.engine import make
from octavo.io.job import Job
from octavo.io.probe import Probe, probe
from octavo.io.render_probe import sentences

if TYPE_CHECKING:
    from octavo._core import IoOutcome

SIZES = [512 << power for power in range(14)]


def unseen(phase: str, done: float, total: int) -> None:
    """Ignores progress."""


@given(st.floats(1e-6, 1e-2), st.floats(1e7, 1e10))
def test_a_line_is_found_again(latency: float, bandwidth: float) -> None:
    line = latency_line(SIZES, [latency + size / bandwidth for size in SIZES])
    assert line is not None
    assert line.seconds == pytest.approx(latency, rel=1e-3)
    assert line.bytes_per_second == pytest.approx(bandwidth, rel=1e-3)
    assert line.bend == pytest.approx(latency * bandwidth, rel=1e-3)
    assert line.largest_error < 1e-3


def test_no_line_where_size_does_not_matter() -> None:
    assert latency_line(SIZES, [1e-3 / (1 + place) for place in range(len(SIZES))]) is None


def test_where_the_bandwidth_is_reached() -> None:
    assert smallest_reaching([1, 2, 4, 8], [10.0, 50.0, 95.0, 100.0], 0.9) == 4


@given(st.integers(0, 1000), st.integers(10, 60), st.floats(0.05, 0.6))
def test_a_drop_is_found_where_it_is(seed: int, at: int, share: float) -> None:
    noise = random.Random(seed)
    rates = [noise.gauss(1.0 if place < at else share, 0.02) * 10_000 for place in range(100)]
    drop = find_drop(rates, 0.1)
    assert drop is not None
    assert drop.after_seconds == pytest.approx(at * 0.1, abs=0.11)
    assert drop.fill == pytest.approx((1 - share) * 10_000 * at * 0.1, rel=0.15)


@given(st.integers(0, 1000))
def test_noise_is_no_drop(seed: int) -> None:
    noise = random.Random(seed)
    assert find_drop([noise.gauss(10_000, 1500) for _ in range(100)], 0.1) is None
    assert find_drop([1.0] * 9, 0.1) is None


def test_a_real_file_has_curves(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Not in /tmp, which may be a tmpfs without O_DIRECT.
    path = Path(os.environ.get("OCTAVO_PROBE_DIRECTORY", "/var/tmp")) / f"octavo-probe-{os.getpid()}"  # noqa: S108
    make(path, 16 * 1024**2, unseen)
    try:
        document = probe(Probe(path, 1.0, 1, unseen))
    except HostError as error:
        pytest.skip(str(error))
    finally:
        path.unlink()
    sizes = [point["bytes"] for point in document["depth_1"]]
    assert sizes[0] == document["smallest_request_bytes"]
    assert all(larger == 2 * smaller for smaller, larger in pairwise(sizes))
    assert document["cpu_us_per_read"] > 0 and any("µs of CPU" in sentence for sentence in sentences(document))
    assert all(point["latency_us"] > 0 for point in document["depth_1"] + document["depth_32"])
    assert document["bytes_per_second_ceiling"] >= max(point["bytes_per_second"] for point in document["depth_32"])
    assert [watched["bytes"] for watched in document["watched"]] == [sizes[0], sizes[-1]]
    assert document["alignment"]
    assert all(row["shift_bytes"] % sizes[0] == 0 and row["ratio"] > 0 for row in document["alignment"])
    assert any("limits, 32 reads" in sentence for sentence in sentences(document))
    assert not any("sparse" in sentence for sentence in sentences(document))
    assert "25% of it is allocated" in sentences({**document, "allocated_share": 0.25})[0]


def test_the_smallest_request_is_found_by_asking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A filesystem that accepts no requests below 16 kB, and one that accepts none at all."""
    taken = 16 * 1024
    asked: list[int] = []

    def measure(job: Job, observe: object) -> "IoOutcome":
        if not job.direct:  # reading the path is permitted
            return cast("IoOutcome", SimpleNamespace())
        asked.append(job.block)
        if job.block < taken:
            raise HostError("cannot read: Invalid argument")
        return cast("IoOutcome", SimpleNamespace(file_bytes=3 * taken))

    monkeypatch.setattr("octavo.io.probe.measure", measure)
    with pytest.raises(UsageError, match="too small"):  # 48 kB are not enough for three sizes from 16 kB on
        probe(Probe(tmp_path, 1.0, 1, unseen))
    assert asked == [512 << power for power in range(6)]
    taken = 1 << 40
    with pytest.raises(HostError, match=r"Invalid argument.*another filesystem"):
        probe(Probe(tmp_path, 1.0, 1, unseen))


def test_a_cache_below_the_probe_is_no_gain_of_shifted_reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of two measurements of the same places the second is twice as fast, whichever it is."""
    shifts = 0

    def measure(job: Job, observe: object) -> "IoOutcome":
        nonlocal shifts
        shifts += job.pattern == "list"
        seconds = 0.5e-3 if job.pattern == "list" and shifts % 2 == 0 else 1e-3

        def latency(_: float) -> float:
            return seconds

        return cast(
            "IoOutcome",
            SimpleNamespace(
                file_bytes=1 << 30, requests=100, seconds=1.0, bytes=100 * job.block, cpu_seconds=1e-3, latency=latency
            ),
        )

    monkeypatch.setattr("octavo.io.probe.measure", measure)
    alignment = probe(Probe(tmp_path, 1.0, 1, unseen))["alignment"]
    assert alignment and all(row["low"] == 0.5 and row["high"] == 2.0 for row in alignment)


def test_a_file_that_may_not_be_read_is_said_as_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def measure(job: Job, observe: object) -> "IoOutcome":
        raise HostError("/dev/sdx: open: Permission denied; run as a user who may")

    monkeypatch.setattr("octavo.io.probe.measure", measure)
    with pytest.raises(HostError, match=r"run as a user who may$"):
        probe(Probe(tmp_path, 1.0, 1, unseen))


def test_a_file_that_is_too_small(tmp_path: Path) -> None:
    make(tmp_path / "small", 64 * 1024, unseen)
    with pytest.raises((UsageError, HostError), match=r"too small|O_DIRECT"):
        probe(Probe(tmp_path / "small", 1.0, 1, unseen))
