"""The hosts of a fleet as the coordinator sees them: who is there, what was asked of whom, and what came back."""

import contextlib
import time
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any

import distributed
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker, NoValidWorkerError

from octavo.errors import HostError, OctavoError
from octavo.fleet import certificates, workshop
from octavo.fleet.events import Began, Came, Delivered, HostEvent, Left, Refused
from octavo.fleet.orders import PartOrder, RunOrder
from octavo.fleet.tls import BENCH, quiet, security, tls_address

# Its types are partly unknown.
_Client: Any = distributed.Client

# How often it is looked who is there, in seconds.
_BETWEEN_LOOKS = 1.0
_CONNECT_SECONDS = 10
# To fetch an answer that is there, and to hear the last one of a run; seconds.
_FETCH_SECONDS = 60
_LAST_WORDS_SECONDS = 60.0
# What Dask raises when a task did not come to its end, or its result not back.
_LOST = (FutureCancelledError, CancelledError, KilledWorker, NoValidWorkerError, TimeoutError, OSError)


@dataclass(slots=True)
class _Seen:
    address: str
    identity: str
    asked: set[Any] = field(default_factory=set[Any])


class DaskHosts:
    """A connection to a scheduler that is made anew when it breaks. One thread uses it."""

    def __init__(self, scheduler: str, revive: Callable[[], None] | None = None, tasks: Any = workshop) -> None:
        """`revive` is called when the scheduler does not answer: it may start it again. `tasks` is the module whose
        functions hosts are asked to run."""
        quiet()
        self._scheduler = tls_address(scheduler)
        self._security = security(certificates.COORDINATOR)
        self._revive = revive
        self._tasks = tasks
        self._events: Queue[HostEvent] = Queue()
        self._seen: dict[str, _Seen] = {}
        self._looked = 0.0
        self._broken: set[str] = set()
        self._client: Any = None
        self._connect()

    def present(self) -> frozenset[str]:
        """Who was there when it was last looked; any thread may ask."""
        return frozenset(self._seen)

    def begin(self, order: RunOrder) -> None:
        """Asks a host to make itself ready."""
        self._ask(order.host, self._tasks.begin, order, lambda report, _: Began(order.host, report))

    def measure(self, host: str, order: PartOrder) -> None:
        """Asks a host for its share of a round."""
        self._ask(host, self._tasks.measure, order, lambda delivery, now: Delivered(host, delivery, now))

    def collect(self, run: str, have: Callable[[str], dict[str, int]]) -> list[Delivered]:
        """What the hosts that are there have still to deliver, as when one came back at the last moment."""
        answers = self._of_all(lambda host: (self._tasks.deliver, run, have(host)))
        return [Delivered(host, delivery, time.time()) for host, delivery in answers.items()]

    def finish(self, run: str, have: Callable[[str], dict[str, int]]) -> None:
        """Tells the hosts that are there that the run is over, and waits until they are as they were found."""
        self._of_all(lambda host: (self._tasks.finish, run, have(host)))

    def _of_all(self, order: Callable[[str], tuple[Any, ...]]) -> dict[str, Any]:
        """The answers of the hosts that are there, without those that have none."""
        if self._client is None:
            return {}
        asked = {host: self._submit(seen, *order(host)) for host, seen in self._seen.items()}
        found: dict[str, Any] = {}
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        for host, future in asked.items():
            # Who does not answer puts itself back when another run begins, or at its end.
            with contextlib.suppress(Exception):
                found[host] = future.result(timeout=max(0.1, deadline - time.monotonic()))
        return found

    def next_event(self, seconds: float) -> HostEvent | None:
        """What happened next; None when nothing does for so long."""
        deadline = time.monotonic() + seconds
        while True:
            if time.monotonic() - self._looked >= _BETWEEN_LOOKS:
                self.look()
            with contextlib.suppress(Empty):
                return self._events.get(timeout=max(0.0, min(_BETWEEN_LOOKS, deadline - time.monotonic())))
            if time.monotonic() >= deadline:
                return None

    def close(self) -> None:
        """Lets go of the scheduler."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=5)
            self._client = None

    def _ask(self, host: str, work: Callable[..., Any], order: Any, event: Callable[[Any, float], HostEvent]) -> None:
        seen = self._seen.get(host)
        if self._client is None or seen is None:
            return  # it has left: that is told
        future = self._submit(seen, work, order)
        seen.asked.add(future)

        def done(_: Any) -> None:
            # In a thread of Dask's. What was cancelled is told by `look`.
            if future not in seen.asked:
                return
            seen.asked.discard(future)
            try:
                self._events.put(event(future.result(timeout=_FETCH_SECONDS), time.time()))
            except _LOST:  # the host or the way to it: another look says which
                self._broken.add(seen.identity)
            except Exception as error:
                self._events.put(Refused(host, _reason(error)))

        future.add_done_callback(done)

    def _submit(self, seen: _Seen, work: Callable[..., Any], *arguments: Any) -> Any:
        assert self._client is not None
        return self._client.submit(
            work, *arguments, workers=[seen.address], allow_other_workers=False, resources={BENCH: 1}, pure=False,
            retries=0,
        )  # fmt: skip

    def look(self) -> None:
        """Finds out who is there now."""
        self._looked = time.monotonic()
        if self._client is None or self._client.status != "running":
            self._lost()
            self._connect()
        found: dict[str, tuple[str, str]] = {}
        try:
            if self._client is not None:
                for address, worker in self._client.scheduler_info(n_workers=-1)["workers"].items():
                    if BENCH in worker.get("resources", {}):
                        found[str(worker["name"])] = (address, str(worker["id"]))
        except (OSError, TimeoutError, RuntimeError, KeyError):
            self._lost()
            return
        for host, seen in list(self._seen.items()):
            if found.get(host) != (seen.address, seen.identity) or seen.identity in self._broken:
                self._broken.discard(seen.identity)
                self._leave(host)
        for host, (address, identity) in found.items():
            if host not in self._seen:
                self._seen[host] = _Seen(address, identity)
                self._events.put(Came(host))

    def _lost(self) -> None:
        for host in list(self._seen):
            self._leave(host)
        if self._client is not None:
            client, self._client = self._client, None
            with contextlib.suppress(Exception):
                client.close(timeout=1)

    def _leave(self, host: str) -> None:
        seen = self._seen.pop(host)
        asked, seen.asked = seen.asked, set()
        if self._client is not None and asked:
            with contextlib.suppress(Exception):
                self._client.cancel(list(asked), force=True)
        self._events.put(Left(host))

    def _connect(self) -> None:
        for attempt in range(2):
            try:
                self._client = _Client(
                    self._scheduler, security=self._security, timeout=_CONNECT_SECONDS, set_as_default=False,
                    direct_to_workers=False,
                )  # fmt: skip
            except (OSError, TimeoutError, RuntimeError) as error:
                self._client = None
                if self._revive is None or attempt:
                    if not self._seen and not self._looked:
                        raise HostError(f"the scheduler at {self._scheduler} does not answer: {error}") from error
                    return
                self._revive()
            else:
                return


def _reason(error: BaseException | None) -> str:
    if isinstance(error, OctavoError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
