"""The sampler on a fake clock: periods, cost, and instruments that fail."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from tests.unit.planted import target

from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import (
    Figure,
    Gauge,
    PerTransaction,
    Rate,
    Reading,
    Total,
    TrialWork,
)
from octavo.instruments.sampler import Sampler
from octavo.instruments.target import Target
from octavo.observation import Metric

READS = Metric("reads", "reads", "1")


@dataclass
class FakeClock:
    """Time advances when somebody waits, CPU time when an instrument reports that it worked."""

    time: float = 100.0
    worked: float = 0.0
    until: float = float("inf")
    waits: list[float] = field(default_factory=list[float])

    def now(self) -> float:
        return self.time

    def cpu(self) -> float:
        return self.worked

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.time += seconds
        return self.time > self.until


@dataclass
class Counting:
    """An instrument whose counter is the clock: one per second."""

    clock: FakeClock
    period: float = 1.0
    asks_server: bool = False
    cost: float = 0.0
    delay: float = 0.0
    problem: Callable[[], Exception | None] = lambda: None
    figures: tuple[Figure, ...] = (Rate(READS, "reads"), Gauge(Metric("level", "level", "1"), "level"))

    def open(self, target: Target) -> Reader:
        def read() -> Reading:
            self.clock.worked += self.cost
            if (problem := self.problem()) is not None:
                raise problem
            moment = self.clock.time
            self.clock.time += self.delay
            return {None: {"reads": moment * 10, "level": moment}}

        return Reader(read)


def sampling(clock: FakeClock, *counting: Counting) -> Sampler:
    sampler = Sampler(clock)
    here = target(Path("/nowhere"))
    for number, instrument in enumerate(counting):
        sampler.add(f"i{number}", instrument, instrument.open(here))
    return sampler


def test_each_instrument_is_sampled_at_its_own_period() -> None:
    clock = FakeClock(until=110.0)
    sampler = sampling(clock, Counting(clock), Counting(clock, period=2.5))
    sampler.run()
    fast, slow = sampler.recordings
    assert [s.seconds for s in fast.series() if s.metric == "reads"] == [tuple(float(n) for n in range(1, 11))]
    assert [s.seconds for s in slow.series() if s.metric == "reads"] == [(2.5, 5.0, 7.5, 10.0)]
    assert all(value == 10.0 for s in fast.series() if s.metric == "reads" for value in s.values)
    assert all(wait >= 0 for wait in clock.waits)


def test_a_slow_reading_leaves_periods_out_and_never_catches_up() -> None:
    clock = FakeClock(until=120.0)
    sampler = sampling(clock, Counting(clock, delay=3.2))
    sampler.run()
    (recording,) = sampler.recordings
    moments = next(s.seconds for s in recording.series() if s.metric == "reads")
    assert all(round(later - earlier, 3) >= 3.2 for earlier, later in pairwise(moments))
    assert 4 <= len(moments) <= 6


def test_a_view_that_stays_open_keeps_the_latest_reading_only() -> None:
    clock = FakeClock()
    sampler = Sampler(clock, keeps=False)
    instrument = Counting(clock)
    recording = sampler.add("i0", instrument, instrument.open(target(Path("/nowhere"))))
    for _ in range(3):
        clock.time += 1
        sampler.sample_now()
    assert [(metric.name, value) for metric, _, value in recording.latest] == [("reads", 10.0), ("level", 103.0)]
    assert recording.samples == 4
    assert not recording.series()


@pytest.mark.parametrize("problem", [psycopg.errors.QueryCanceled("timeout"), UnavailableError("no more")])
def test_a_view_does_not_show_an_earlier_interval(problem: Exception) -> None:
    clock = FakeClock()
    problems = iter([None, None, problem])
    sampler = Sampler(clock, keeps=False)
    instrument = Counting(clock, problem=lambda: next(problems, None))
    recording = sampler.add("counting", instrument, instrument.open(target(Path("/nowhere"))))
    clock.time += 1
    sampler.sample_now()
    assert recording.latest
    clock.time += 1
    sampler.sample_now()
    assert not recording.latest


def test_a_view_asks_a_server_that_was_too_busy_again_after_a_period() -> None:
    clock = FakeClock()
    problems = iter([None, None, psycopg.errors.QueryCanceled("timeout")])
    sampler = Sampler(clock, keeps=False)
    instrument = Counting(clock, period=5.0, problem=lambda: next(problems, None))
    recording = sampler.add("counting", instrument, instrument.open(target(Path("/nowhere"))))
    samples: list[int] = []
    for clock.time in (101.0, 106.0, 107.0, 111.0):
        sampler.sample_now()
        samples.append(recording.samples)
    assert samples == [2, 2, 2, 3]


def test_the_cost_of_looking_is_measured_for_each() -> None:
    clock = FakeClock(until=103.5)
    sampler = sampling(clock, Counting(clock, cost=0.25), Counting(clock))
    sampler.run()
    assert [recording.cpu_seconds for recording in sampler.recordings] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("problem", "off", "missed"),
    [
        (UnavailableError("no more"), "no more", 0),
        (PermissionError(13, "Permission denied"), "[Errno 13] Permission denied", 0),
        (ValueError("b'?' is not a number"), "b'?' is not a number", 0),  # a kernel whose text is of another form
        (psycopg.OperationalError("the connection\nis lost"), "the connection is lost", 0),
        (psycopg.errors.QueryCanceled("timeout"), None, 1),
        (psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"), None, 1),
    ],
)
def test_what_fails_is_off_and_keeps_what_it_saw(problem: Exception, off: str | None, missed: int) -> None:
    clock = FakeClock(until=106.5)
    failing = iter([None, None, None, problem])
    sampler = sampling(clock, Counting(clock, problem=lambda: next(failing, None)), Counting(clock))
    sampler.run()
    broken, whole = sampler.recordings
    assert (broken.off, broken.missed) == (off, missed)
    assert len(broken.series()[0].values) == (2 if off else 5)
    assert len(whole.series()[0].values) == 6
    assert broken.observations(TrialWork())


def test_the_first_and_the_final_reading_have_no_gauges() -> None:
    clock = FakeClock(until=102.5)
    sampler = sampling(clock, Counting(clock, figures=(Gauge(Metric("level", "", "1"), "level", whole="min"),
                                                       Total(READS, "reads"))))  # fmt: skip
    sampler.run()
    clock.time = 105.0
    sampler.final(asks_server=False)
    (recording,) = sampler.recordings
    values = {o.metric: o.value for o in recording.observations(TrialWork())}
    assert values == {"level": 101.0, "reads": 50.0}


@pytest.mark.parametrize(
    ("problem", "off"),
    [
        (psycopg.OperationalError("the server was restarted"), "the server was restarted"),
        (psycopg.errors.QueryCanceled("timeout"), None),
    ],
)
def test_without_the_final_reading_there_is_no_amount_of_the_whole_trial(problem: Exception, off: str | None) -> None:
    """A workload that restarts its server ends the instruments' connection, as TPC-H with cold caches does."""
    clock = FakeClock(until=102.5)
    readings = iter([None, None, None])
    figures: tuple[Figure, ...] = (
        Total(READS, "reads"),
        PerTransaction(Metric("each", "reads per transaction", "1"), "reads"),
        Rate(Metric("rate", "reads a second", "1/s"), "reads"),
    )
    sampler = sampling(clock, Counting(clock, problem=lambda: next(readings, problem), figures=figures))
    sampler.run()
    clock.time = 105.0
    sampler.final(asks_server=False)
    (recording,) = sampler.recordings
    assert recording.off == off
    assert {one.metric: one.value for one in recording.observations(TrialWork(transactions=22))} == {"rate": 10.0}


def test_without_a_reading_before_the_load_there_is_no_amount_of_the_whole_trial() -> None:
    clock = FakeClock(until=102.5)
    problems = iter([psycopg.errors.QueryCanceled("timeout")])
    figures: tuple[Figure, ...] = (Total(READS, "reads"), Rate(Metric("rate", "reads a second", "1/s"), "reads"))
    sampler = sampling(clock, Counting(clock, problem=lambda: next(problems, None), figures=figures))
    sampler.run()
    clock.time = 105.0
    sampler.final(asks_server=False)
    (recording,) = sampler.recordings
    assert {one.metric: one.value for one in recording.observations(TrialWork())} == {"rate": 10.0}


def test_the_thread_samples_until_it_is_stopped() -> None:
    sampled = threading.Event()

    class Quick(Counting):
        def open(self, target: Target) -> Reader:
            def read() -> Reading:
                sampled.set()
                return {None: {"reads": 1.0, "level": 1.0}}

            return Reader(read)

    sampler = Sampler()
    quick = Quick(FakeClock(), period=0.01)
    sampler.add("quick", quick, quick.open(target(Path("/nowhere"))))
    sampled.clear()
    sampler.start()
    assert sampled.wait(10)
    sampler.stop()
    count = sampler.recordings[0].samples
    assert count >= 2
    sampler.stop()  # a second time is harmless
    assert sampler.recordings[0].samples == count
