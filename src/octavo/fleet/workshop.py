"""The work of a host in a fleet: it holds the host's run lock, measures its parts of rounds, and keeps trials until
they are delivered.

The functions at the end are the tasks that Dask runs here. In Octavo's own worker the main thread does their work, one
after the other, as it does in `octavo run`: a signal interrupts it, and it continues when the connection is lost.
"""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from queue import Queue
from threading import Lock, Thread
from typing import Any, TypeVar

from octavo import workloads
from octavo.errors import HostError
from octavo.fleet.identity import package_digest
from octavo.fleet.orders import Delivery, PartOrder, Report, RunOrder
from octavo.fleet.outbox import Outbox, remove_delivered
from octavo.home import octavo_home
from octavo.host.journal import Journal, recover
from octavo.host.lock import host_lock
from octavo.lab.events import Event, Notice, Preparing
from octavo.lab.part import PartRunner
from octavo.lab.recall import recall_results
from octavo.lab.runnable import class_here, other_class
from octavo.plan.cells import Cell, with_their_baselines
from octavo.plan.model import restore_plan
from octavo.plan.parts import PARTS_OF_A_HOST
from octavo.store.records import TrialRecord, for_rounds

Result = TypeVar("Result")

# Another run may replace one whose coordinator has been silent for so many seconds. An active coordinator sends `hold`
# every minute, also to a host that waits for slower ones.
_FORGOTTEN_AFTER = 600.0


def parcels() -> Path:
    """The directory of builds that are being sent or received (`fleet.transfer`)."""
    return octavo_home() / "fleet" / "parcels"


class NotBegun(HostError):
    """This host has not begun the run, or no longer has it: it has to be asked to begin."""


class Workshop:
    """One run on this host."""

    def __init__(self, order: RunOrder) -> None:
        if (mine := package_digest()) != order.octavo:
            raise HostError(
                f"{order.host} has another Octavo ({mine[:12]}; coordinator: {order.octavo[:12]}); install the same, "
                "and end workers that run since before: octavo fleet stop"
            )
        self.order = order
        # When the coordinator last sent something; Dask's thread sets it, too.
        self.asked = time.monotonic()
        # The cells that are still undecided, None before the coordinator has decided any; Dask's thread sets it.
        self.open: frozenset[str] | None = None
        # Whether the coordinator has left without waiting for `finish`; Dask's thread sets it.
        self.left = False
        self._sent = 0
        self._broken: HostError | None = None
        self._cells = {cell.id: cell for cell in order.cells}
        self._notices: list[str] = []
        plan = restore_plan(order.plan)
        with ExitStack() as stack:
            stack.enter_context(host_lock())
            self._notices += recover()
            shutil.rmtree(parcels(), ignore_errors=True)  # from a transfer whose coordinator was killed
            journal = stack.enter_context(Journal())
            self._outbox = Outbox(order.run, lambda line: self._notify(Notice(line)))
            stack.callback(self._outbox.close)
            self._ready = order.prepare(order, plan, journal, self._notify)
            stack.callback(self._ready.close)
            trials = [for_rounds(trial) for _, trial in self._outbox.trials()]
            recall_results(workloads.find(plan.workload), order.cells, trials)
            self._stack = stack.pop_all()
        self._parts = PartRunner(
            plan, order.seed_of_host, self._ready.bench, self._ready.clock, self._notify, trials, self._commit
        )

    def _commit(self, trial: TrialRecord) -> TrialRecord:
        return for_rounds(self._outbox.add(trial))

    def report(self) -> Report:
        """Returns the facts of this host and the cells that it cannot run."""
        mine = self.order.host_class or class_here()
        others = {cell.id: why for cell in self.order.cells if (why := other_class(cell, mine))}
        cannot = {**self._ready.cannot, **others}
        loads, measured = self._ready.loads(), self._outbox.last()
        return Report(self._ready.environment, cannot, self._ready.room, mine, loads, measured)

    def begin_again(self) -> None:
        """Resets the state of delivery: the coordinator may have missed what was sent last, and asks for everything
        again."""
        self.asked, self.open, self.left, self._sent, self._broken = time.monotonic(), None, False, 0, None

    def measure(self, order: PartOrder) -> Delivery:
        """Measures what is still missing of this host's share of the round. Raises OctavoError when it cannot, and
        again for every later order until `begin_again`."""
        if self._broken is not None:
            raise self._broken
        members = [self._cells[cell] for cell in order.cells]
        there = {_place(trial) for trial in self._parts.trials}
        self._parts.trials += [trial for trial in order.done if _place(trial) not in there]
        first = 1 + self.order.number * PARTS_OF_A_HOST if order.part is None else order.part
        wanted = self._wanted if order.part is None else self._wanted_again
        try:
            for part, cells in enumerate(self._ready.bench.parts(members), first):
                self._parts.run(order.round, part, cells, wanted)
        except HostError as error:
            self._broken = error
            raise
        self.asked = time.monotonic()
        return self._deliver(max(order.have.get(self._outbox.name, 0), self._sent))

    def deliver(self, have: Mapping[str, int]) -> Delivery:
        """Returns the trials that the coordinator does not have."""
        return self._deliver(have.get(self._outbox.name, 0))

    def _deliver(self, after: int) -> Delivery:
        trials = tuple(self._outbox.trials(after))
        if trials:
            self._sent = trials[-1][0]
        notices, self._notices = tuple(self._notices), []
        return Delivery(self._outbox.name, trials, self._ready.clock.now(), notices, after)

    def _wanted(self, members: Sequence[Cell]) -> list[Cell]:
        """The cells among these that are still undecided, with their baselines."""
        return list(members) if self.open is None else with_their_baselines(members, self.open)

    def _wanted_again(self, members: Sequence[Cell]) -> list[Cell]:
        """All cells to be repeated, decided or not, unless the coordinator has left."""
        return [] if self.left else list(members)

    def close(self, have: Mapping[str, int] | None = None) -> None:
        """Restores the host's settings. Removes the outbox when the coordinator has all of its trials. Raises HostError
        when the outbox cannot be read; the settings are restored nevertheless."""
        try:
            delivered = have is not None and not self._outbox.undelivered(have)
        finally:
            self._stack.close()
        if delivered:
            self._outbox.remove()

    def _notify(self, event: Event) -> None:
        if isinstance(event, Notice):
            self._notices.append(event.text)
        elif isinstance(event, Preparing):
            print(f"preparing {event.what}", flush=True)  # the worker's log


def _place(trial: TrialRecord) -> tuple[int, int, int, int, str]:
    return trial.round, trial.part, trial.attempt, trial.position, trial.cell


class WorkQueue:
    """Serializes this process's work for runs: with a queue that the main thread serves, or with a lock."""

    def __init__(self) -> None:
        self.workshop: Workshop | None = None
        # How often this host was asked to begin with each run.
        self.begun = Counter[str]()
        self._queue: Queue[tuple[Callable[[], Any], Future[Any]] | None] = Queue()
        self._lock = Lock()
        self._serving = False

    def serve(self) -> None:
        """Does the queued work in this thread until `stop`. A KeyboardInterrupt ends it at once."""
        self._serving = True
        try:
            while (asked := self._queue.get()) is not None:
                work, answer = asked
                try:
                    answer.set_result(work())
                except Exception as error:
                    answer.set_exception(error)
                except BaseException:
                    answer.set_exception(HostError("the worker on this host was stopped"))
                    raise
        finally:
            self._serving = False
            self.close()

    def stop(self) -> None:
        """Ends `serve` after the work that is already queued."""
        self._queue.put(None)

    def do(self, work: Callable[[], Result]) -> Result:
        """Queues the work, waits for it and returns its result."""
        if not self._serving:  # in a worker that somebody else started
            with self._lock:
                return work()
        answer: Future[Result] = Future()
        self._queue.put((work, answer))
        return answer.result()

    def later(self, work: Callable[[], None]) -> None:
        """Queues the work without waiting for it."""

        def logged() -> None:
            try:
                work()
            except Exception as error:
                print(f"octavo: {error}", file=sys.stderr, flush=True)

        if self._serving:
            self._queue.put((logged, Future()))
        else:
            Thread(target=self.do, args=(logged,), name="later", daemon=True).start()

    def close(self) -> None:
        """Restores the host's settings."""
        if self.workshop is not None:
            workshop, self.workshop = self.workshop, None
            workshop.close()


BENCH = WorkQueue()


def begin(order: RunOrder) -> Report:
    """A task: prepares this host for a run unless it is prepared. Raises OctavoError when it cannot."""
    BENCH.begun[order.run] += 1
    return BENCH.do(lambda: _begin(order))


def measure(order: PartOrder) -> Delivery:
    """A task: measures this host's share of a round. Raises OctavoError when it cannot continue."""
    return BENCH.do(lambda: _workshop(order.run).measure(order))


def narrow(run: str, cells: Sequence[str]) -> None:
    """Runs at once in Dask's own thread, not as a task: only these cells of the orders are still undecided. The current
    trial is completed."""
    workshop = BENCH.workshop
    if workshop is not None and workshop.order.run == run:
        workshop.open = frozenset(cells)


def hold(run: str) -> None:
    """Runs at once in Dask's own thread, not as a task: the run is still active, even if this host has no new order."""
    workshop = BENCH.workshop
    if workshop is not None and workshop.order.run == run:
        workshop.asked = time.monotonic()


def leave(run: str) -> None:
    """Runs at once in Dask's own thread, not as a task: the run is over, and the coordinator no longer waits for a
    trial or a preparation that is going on here. The host's settings are restored after that; trials that were not
    delivered stay in the outbox."""
    begun, workshop = BENCH.begun[run], BENCH.workshop
    if workshop is not None and workshop.order.run == run:
        workshop.open, workshop.left = frozenset(), True

    def put_back() -> None:
        now = BENCH.workshop
        if now is not None and now.order.run == run and BENCH.begun[run] == begun:  # not if asked to begin again
            BENCH.close()

    BENCH.later(put_back)


def finish(run: str, have: dict[str, int]) -> Delivery | None:
    """A task: the run is over; restores the host's settings. Returns the trials that the coordinator did not have; they
    stay in the outbox."""

    def end() -> Delivery | None:
        if BENCH.workshop is None or BENCH.workshop.order.run != run:
            remove_delivered(run, have)
            return None
        workshop, BENCH.workshop = BENCH.workshop, None
        try:
            left = workshop.deliver(have)
        except BaseException:  # a full disk: nobody else knows this run any more
            workshop.close()
            raise
        workshop.close(have)
        return left

    return BENCH.do(end)


def _begin(order: RunOrder) -> Report:
    now = BENCH.workshop
    if now is not None and now.order.run != order.run and time.monotonic() - now.asked < _FORGOTTEN_AFTER:
        raise HostError(f"{order.host} measures for the run {now.order.run}; wait until that ends")
    if now is not None and not now.order.is_same(order):
        BENCH.close()
        now = None
    if now is None:
        BENCH.workshop = now = Workshop(order)
    now.begin_again()
    return now.report()


def _workshop(run: str) -> Workshop:
    if BENCH.workshop is None or BENCH.workshop.order.run != run:
        raise NotBegun(f"this host has not started {run}")
    return BENCH.workshop
