"""Ownership of a host: by one run at a time, as long as the coordinator is heard from; restored when it is over."""

# pyright: reportPrivateUsage=false

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.errors import HostError
from octavo.fleet import workshop
from octavo.fleet.orders import PartOrder, RunOrder
from octavo.fleet.workshop import WorkQueue, Workshop


@dataclass
class FakeClock:
    time: float = 1000.0

    def monotonic(self) -> float:
        return self.time


@dataclass
class FakeWorkshop:
    """A run on this host, which is restored when it is closed."""

    order: Any
    asked: float = 0.0
    open: frozenset[str] | None = None
    left: bool = False
    closed: threading.Event = field(default_factory=threading.Event)

    def begin_again(self) -> None:
        self.asked, self.open, self.left = workshop.time.monotonic(), None, False

    def report(self) -> str:
        return f"ready for {self.order.run}"

    def deliver(self, have: Any) -> Any:
        raise HostError("the outbox cannot be read")

    def close(self) -> None:
        self.closed.set()


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


_PREPARE: Any = object()


def order(run: str) -> RunOrder:
    return RunOrder(run, {"budget": None}, (), 7, "a", 1, "digest", _PREPARE)


def test_a_host_that_waits_stays_its_runs_as_long_as_that_goes_on(bench: WorkQueue, clock: FakeClock) -> None:
    workshop.begin(order("one"))
    first: Any = bench.workshop
    for _ in range(30):
        clock.time += 60
        workshop.hold("one")
        workshop.hold("another")
    with pytest.raises(HostError, match="a measures for the run one"):
        workshop.begin(order("two"))
    assert not first.closed.is_set()


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
    assert first.closed.is_set()
    assert bench.workshop is not None and bench.workshop.order.run == "two"


def test_a_run_that_is_resumed_with_another_plan_or_another_octavo_begins_anew(bench: WorkQueue) -> None:
    """A host that its killed coordinator had left measured on with the earlier plan, and with the earlier Octavo."""
    workshop.begin(order("one"))
    for change in ({"plan": {"budget": "1h"}}, {"octavo": "another"}):
        before: Any = bench.workshop
        workshop.begin(replace(before.order, **change))
        now: Any = bench.workshop
        assert before.closed.is_set() and not now.closed.is_set()


def test_a_host_that_comes_back_keeps_its_run(bench: WorkQueue) -> None:
    """The coordinator has learnt its room meanwhile."""
    workshop.begin(order("one"))
    first: Any = bench.workshop
    workshop.begin(replace(order("one"), room=2**30))
    assert bench.workshop is first and not first.closed.is_set()


def test_a_host_that_has_not_begun_says_so(bench: WorkQueue) -> None:
    workshop.begin(order("one"))
    with pytest.raises(workshop.NotBegun, match="has not started two"):
        workshop.measure(PartOrder("two", 1, (), {}))


@contextmanager
def serving(bench: WorkQueue) -> Generator[None, None, None]:
    """Serves as Octavo's own worker does, whose main thread does the work."""
    pause = threading.Event()
    thread = threading.Thread(target=bench.serve)
    thread.start()
    try:
        # Requests made before the thread serves would be executed here.
        while not bench._serving:
            pause.wait(0.001)
        yield
    finally:
        bench.stop()
        thread.join()


@contextmanager
def in_a_trial(bench: WorkQueue) -> Generator[Callable[[], None], None, None]:
    """A trial that continues until the yielded function is called, or until the context ends."""
    began, ends = threading.Event(), threading.Event()

    def trial() -> None:
        began.set()
        assert ends.wait(60)

    thread = threading.Thread(target=bench.do, args=(trial,))
    thread.start()
    try:
        assert began.wait(60)
        yield ends.set
    finally:
        ends.set()
        thread.join()


def left_in_a_trial(bench: WorkQueue) -> None:
    workshop.begin(order("one"))
    first: Any = bench.workshop
    with in_a_trial(bench) as end_trial:
        workshop.leave("another")
        assert not first.left
        workshop.leave("one")
        assert first.left and first.open == frozenset()
        assert not first.closed.is_set()
        end_trial()
        assert first.closed.wait(60)
    assert bench.workshop is None


def test_a_host_that_is_left_in_a_trial_is_put_back_after_it(bench: WorkQueue) -> None:
    with serving(bench):
        left_in_a_trial(bench)


def test_so_is_one_whose_worker_somebody_else_keeps(bench: WorkQueue) -> None:
    left_in_a_trial(bench)


def test_a_host_that_is_left_while_it_makes_itself_ready_is_put_back(
    bench: WorkQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[FakeWorkshop] = []
    begun, goes_on = threading.Event(), threading.Event()

    def make(of: Any) -> FakeWorkshop:
        begun.set()
        assert goes_on.wait(60)
        made.append(FakeWorkshop(of))
        return made[0]

    monkeypatch.setattr(workshop, "Workshop", make)
    thread = threading.Thread(target=workshop.begin, args=(order("one"),))
    with serving(bench):
        thread.start()
        assert begun.wait(60)
        workshop.leave("one")
        goes_on.set()
        thread.join()
        assert bench.do(lambda: bench.workshop) is None
    assert made[0].closed.is_set()


def test_a_run_that_goes_on_before_the_trial_has_ended_keeps_its_host(
    bench: WorkQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Callable[[], None]] = []
    monkeypatch.setattr(bench, "later", waiting.append)
    workshop.begin(order("one"))
    first: Any = bench.workshop
    workshop.leave("one")
    workshop.begin(order("one"))
    for put_back in waiting:
        put_back()
    assert bench.workshop is first
    assert not first.closed.is_set()


def test_another_run_that_begins_before_the_trial_has_ended_gets_the_host(bench: WorkQueue) -> None:
    """It was refused, and the host kept the settings of the run that had left it."""
    workshop.begin(order("one"))
    first: Any = bench.workshop
    with serving(bench):
        with in_a_trial(bench) as end_trial:
            workshop.leave("one")
            thread = threading.Thread(target=workshop.begin, args=(order("two"),))
            thread.start()
            while not bench.begun["two"]:
                threading.Event().wait(0.001)
            end_trial()
        thread.join()
        assert first.closed.is_set()
        assert bench.workshop is not None and bench.workshop.order.run == "two"


def test_a_host_whose_trials_cannot_be_read_is_put_back(bench: WorkQueue) -> None:
    workshop.begin(order("one"))
    mine: Any = bench.workshop
    with pytest.raises(HostError, match="cannot be read"):
        workshop.finish("one", {})
    assert mine.closed.is_set()
    assert bench.workshop is None


def test_an_outbox_that_cannot_be_read_keeps_no_settings() -> None:
    def fail(_: Any) -> Any:
        raise HostError("the outbox cannot be read")

    put_back: list[str] = []
    mine: Any = Workshop.__new__(Workshop)
    mine._outbox = SimpleNamespace(undelivered=fail)
    mine._stack = ExitStack()
    mine._stack.callback(put_back.append, "settings")
    with pytest.raises(HostError, match="cannot be read"):
        mine.close({})
    assert put_back == ["settings"]


def test_what_goes_wrong_when_nobody_waits_is_in_the_log(bench: WorkQueue, capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise HostError("no way back")

    with serving(bench):
        bench.later(fails)
        bench.do(lambda: None)
    assert "octavo: no way back" in capsys.readouterr().err
