"""Whose a host is: of one run at a time, as long as that is heard of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.errors import HostError
from octavo.fleet import workshop
from octavo.fleet.workshop import WorkQueue


@dataclass
class FakeClock:
    time: float = 1000.0

    def monotonic(self) -> float:
        return self.time


@dataclass
class FakeWorkshop:
    """A run on this host, which is put back when it is closed."""

    order: Any
    asked: float = 0.0
    open: frozenset[str] | None = None
    closed: bool = field(default=False)

    def begin_again(self) -> None:
        self.asked, self.open = workshop.time.monotonic(), None

    def report(self) -> str:
        return f"ready for {self.order.run}"

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    found = FakeClock()
    monkeypatch.setattr(workshop, "time", found)
    return found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> Iterator[WorkQueue]:
    found = WorkQueue()
    monkeypatch.setattr(workshop, "BENCH", found)
    monkeypatch.setattr(workshop, "Workshop", FakeWorkshop)
    yield found
    found.close()


def order(run: str) -> Any:
    return SimpleNamespace(run=run, host="a")


def test_a_host_that_waits_stays_its_runs_as_long_as_that_goes_on(bench: WorkQueue, clock: FakeClock) -> None:
    workshop.begin(order("one"))
    first: Any = bench.workshop
    for _ in range(30):
        clock.time += 60
        workshop.hold("one")
        workshop.hold("another")
    with pytest.raises(HostError, match="a measures for the run one"):
        workshop.begin(order("two"))
    assert not first.closed


def test_a_run_that_is_heard_of_no_more_gives_way(bench: WorkQueue, clock: FakeClock) -> None:
    workshop.begin(order("one"))
    first: Any = bench.workshop
    workshop.hold("one")
    clock.time += 599
    with pytest.raises(HostError, match="a measures for the run one"):
        workshop.begin(order("two"))
    clock.time += 1
    workshop.hold("another")
    workshop.begin(order("two"))
    assert first.closed
    assert bench.workshop is not None and bench.workshop.order.run == "two"
