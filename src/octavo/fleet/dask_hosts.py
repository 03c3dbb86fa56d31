"""The hosts of a fleet as the coordinator sees them: which are present, their orders, and their deliveries."""

import contextlib
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any, Self

# Takes effect before Dask is imported.
from octavo.fleet import dask_settings  # noqa: F401 # pyright: ignore[reportUnusedImport]

# isort: split
import distributed
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker, NoValidWorkerError

from octavo.errors import HostError, OctavoError
from octavo.fleet import certificates, workshop
from octavo.fleet.connection import connect, workers_of
from octavo.fleet.events import Began, Came, Delivered, HostEvent, Left, Refused
from octavo.fleet.orders import PartOrder, RunOrder
from octavo.fleet.tls import BENCH, configured_security, quiet, security, tls_address

# Its types are partly unknown.
_dask: Any = distributed
_wait = _dask.wait

# How often it is looked who is there, in seconds; with hundreds of hosts it takes a twentieth of the time at the most.
_BETWEEN_LOOKS = 1.0
_PART_OF_LOOKS = 20
# To fetch an answer that is there, and to hear the last one of a run; seconds.
_FETCH_SECONDS = 60
_LAST_WORDS_SECONDS = 60.0
# For those that are left to be told so; seconds.
_LEAVE_SECONDS = 10.0
_FETCHED_AT_ONCE = 500
# What Dask raises when a task did not come to its end, or its result not back. The last two a task may raise itself.
_UNFINISHED = (FutureCancelledError, CancelledError, KilledWorker, NoValidWorkerError)
_LOST = (*_UNFINISHED, TimeoutError, OSError)

# A host, a task and its arguments.
Order = tuple[str, Callable[..., Any], *tuple[Any, ...]]


@dataclass(slots=True)
class _Seen:
    address: str
    identity: str
    asked: set[Any] = field(default_factory=set[Any])


@dataclass(frozen=True, slots=True)
class _Request:
    """What a host was asked; `event` makes an event of its answer and the time when that was there."""

    host: str
    seen: _Seen
    future: Any
    event: Callable[[Any, float], HostEvent]


class DaskHosts:
    """A connection to a scheduler that is made anew when it breaks. One thread uses it."""

    def __init__(
        self, scheduler: str, revive: Callable[[], None] | None = None, tasks: Any = workshop, secured: Any = None
    ) -> None:
        """`revive` is called before every connection: it starts the scheduler again unless that runs. `tasks` is the
        module whose functions hosts are asked to run. `secured`: the certificates, those of the fleet if left out."""
        quiet()
        self._scheduler = tls_address(scheduler)
        self._security = secured or security(certificates.COORDINATOR)
        self._revive = revive
        self._tasks = tasks
        self._events: Queue[HostEvent] = Queue()
        self._seen: dict[str, _Seen] = {}
        self._looked, self._between = 0.0, _BETWEEN_LOOKS
        self._broken: set[str] = set()
        self._submitted = 0
        self._ended: Queue[tuple[_Request, float] | None] = Queue()
        self._client: Any = None
        self._connect()
        threading.Thread(target=self._fetch, name="fetch", daemon=True).start()

    @classmethod
    def of_others(cls, scheduler: str) -> Self:
        """The workers of a Dask that somebody else keeps, with the certificates that Dask is configured with, or the
        fleet's own."""
        return cls(scheduler, secured=configured_security())

    def present(self) -> frozenset[str]:
        """Who was there when it was last looked; any thread may ask."""
        return frozenset(self._seen)

    def wait_for(self, names: Collection[str], seconds: float) -> frozenset[str]:
        """Who is there when all of these are, or after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            if self.present() >= frozenset(names) or time.monotonic() >= deadline:
                return self.present()
            time.sleep(_BETWEEN_LOOKS)

    def begin(self, order: RunOrder) -> None:
        """Asks a host to make itself ready."""
        self._ask(order.host, self._tasks.begin, order, lambda report, _: Began(order.host, report))

    def measure(self, host: str, order: PartOrder) -> None:
        """Asks a host for a part, after what it was asked for before."""
        self._ask(host, self._tasks.measure, order, lambda delivery, now: Delivered(host, delivery, now, order))

    def narrow(self, run: str, cells: Collection[str], names: Collection[str] | None = None) -> None:
        """Tells hosts (these, or all) that of what they were asked for only these cells are still open: at once, not
        as a task."""
        # Who does not hear it measures more than is needed.
        self._tell(names, self._tasks.narrow, run, sorted(cells))

    def hold(self, run: str, names: Collection[str]) -> None:
        """Tells these hosts, at once, that the run goes on, so that they do not give way to another one."""
        self._tell(names, self._tasks.hold, run)

    def _tell(self, names: Collection[str] | None, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        """Has these hosts, or all, do at once what is no task, in a thread that ends when they have; who cannot be
        reached does not hear of it."""
        client = self._client
        addresses = [seen.address for host, seen in self._seen.items() if names is None or host in names]

        def tell() -> None:
            with contextlib.suppress(Exception):
                if client is not None and addresses:
                    client.run(work, *arguments, workers=addresses, on_error="ignore")

        telling = threading.Thread(target=tell, name="tell", daemon=True)
        telling.start()
        return telling

    def finish(
        self, run: str, have: Callable[[str], dict[str, int]], names: Collection[str] | None = None
    ) -> list[Delivered]:
        """Tells the hosts that are there (of these, or of all) that the run is over, and waits until they are as they
        were found; returns what they had still to deliver, as when one came back at the last moment.

        One that takes longer, because it is in a trial, puts itself back after that: its task here is dropped when we
        leave, and it is told so.
        """
        asked = {host for host in self._seen if names is None or host in names}
        answers: dict[str, Any] = {}
        try:
            answers = self._of_all(lambda host: (self._tasks.finish, run, have(host)), names)
        finally:
            if late := asked - answers.keys():
                self._tell(late, self._tasks.leave, run).join(_LEAVE_SECONDS)
        return [Delivered(host, delivery, time.time()) for host, delivery in answers.items() if delivery is not None]

    def ask_all(self, work: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """The answers of the hosts that are there, without those that have none."""
        return self._of_all(lambda _: (work, *arguments), None)

    def gather(self, orders: Sequence[Order]) -> list[Any]:
        """The answers to orders, in their order, however long they take. Raises what the first that fails raises, and
        HostError when a host is lost."""
        asked = self._submit_all(orders)
        try:
            return [self._answer(*one) for one in asked]
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel([future for _, _, future in asked if not future.done()])

    def answers(self, orders: Sequence[Order]) -> dict[str, Any]:
        """The answers to orders, one a host, by host, however long they take; the error of one that fails."""
        found: dict[str, Any] = {}
        for host, seen, future in self._submit_all(orders):
            try:
                found[host] = self._answer(host, seen, future)
            except OctavoError as error:
                found[host] = error
        return found

    def _submit_all(self, orders: Sequence[Order]) -> list[tuple[str, _Seen | None, Any]]:
        asked: list[tuple[str, _Seen | None, Any]] = []
        for host, work, *arguments in orders:
            seen = self._seen.get(host)
            if seen is None or self._client is None:
                asked.append((host, None, None))
            else:
                asked.append((host, seen, self._submit(seen, work, *arguments)))
        return asked

    def _answer(self, host: str, seen: _Seen | None, future: Any) -> Any:
        """What a task returned. Raises what it raised, with the host's name, and HostError when the host is lost."""
        while seen is not None:
            try:
                return future.result(timeout=_BETWEEN_LOOKS)
            except OctavoError as error:
                raise type(error)(f"{host}: {error}") from error
            except _LOST as error:
                if _raised_by_task(future, error):
                    raise HostError(f"{host}: {_reason(error)}") from error
                if not isinstance(error, TimeoutError):
                    break
                self.look()
                if self._seen.get(host) is not seen:
                    break
            except Exception as error:
                raise HostError(f"{host}: {_reason(error)}") from error
        raise HostError(f"{host} does not respond or was lost meanwhile; run the same command again")

    def _of_all(self, order: Callable[[str], tuple[Any, ...]], names: Collection[str] | None) -> dict[str, Any]:
        """The answers of the hosts that are there, without those that have none."""
        if self._client is None:
            return {}
        asked = {
            host: self._submit(seen, *order(host))
            for host, seen in self._seen.items()
            if names is None or host in names
        }
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        with contextlib.suppress(Exception), self._client.as_current():
            _wait(list(asked.values()), timeout=_LAST_WORDS_SECONDS)
        results = _together(list(asked.values()), _FETCH_SECONDS)
        found: dict[str, Any] = {}
        for host, future in asked.items():
            with contextlib.suppress(Exception):
                found[host] = _result(future, results, max(0.1, deadline - time.monotonic()))
        return found

    def next_event(self, seconds: float) -> HostEvent | None:
        """What happened next; None when nothing does for so long."""
        deadline = time.monotonic() + seconds
        while True:
            if time.monotonic() - self._looked >= self._between:
                self.look()
            with contextlib.suppress(Empty):
                return self._events.get(timeout=max(0.0, min(_BETWEEN_LOOKS, deadline - time.monotonic())))
            if time.monotonic() >= deadline:
                return None

    def close(self) -> None:
        """Lets go of the scheduler."""
        self._ended.put(None)
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
        asked = _Request(host, seen, future, event)

        def done(_: Any) -> None:
            # The time is taken here: bringing many results may take longer than clocks may differ.
            self._ended.put((asked, time.time()))

        future.add_done_callback(done)

    def _fetch(self) -> None:
        """Brings what has ended, in a thread of its own: many results in one message. What was cancelled is told by
        `look`."""
        while (first := self._ended.get()) is not None:
            ended = [first]
            with contextlib.suppress(Empty):
                while len(ended) < _FETCHED_AT_ONCE:
                    if (another := self._ended.get_nowait()) is None:
                        return
                    ended.append(another)
            ended = [(one, moment) for one, moment in ended if one.future in one.seen.asked]
            results = _together([one.future for one, _ in ended], _FETCH_SECONDS)
            for one, moment in ended:
                if one.future in one.seen.asked:
                    one.seen.asked.discard(one.future)
                    self._hand_over(one, moment, results)

    def _hand_over(self, ended: _Request, moment: float, results: Mapping[Any, Any]) -> None:
        try:
            self._events.put(ended.event(_result(ended.future, results, _FETCH_SECONDS), moment))
        except _LOST as error:
            if _raised_by_task(ended.future, error):
                self._events.put(Refused(ended.host, _reason(error)))
            else:  # the host or the way to it: another look says which
                self._broken.add(ended.seen.identity)
        except Exception as error:
            self._events.put(Refused(ended.host, _reason(error)))

    def _submit(self, seen: _Seen, work: Callable[..., Any], *arguments: Any) -> Any:
        assert self._client is not None
        self._submitted += 1  # what was asked for first is done first
        return self._client.submit(
            work, *arguments, workers=[seen.address], allow_other_workers=False, resources={BENCH: 1}, pure=False,
            retries=0, priority=-self._submitted,
        )  # fmt: skip

    def look(self) -> None:
        """Finds out who is there now."""
        self._looked = began = time.monotonic()
        if self._client is None or self._client.status != "running":
            self._lost()
            self._connect()
        found: dict[str, tuple[str, str]] = {}
        try:
            if self._client is not None:
                for address, worker in workers_of(self._client).items():
                    if BENCH in worker.get("resources", {}):
                        found[str(worker["name"])] = (address, str(worker["id"]))
        except OSError:  # a lost connection shows in the client's status
            return
        except (RuntimeError, KeyError):
            self._lost()
            return
        self._between = max(_BETWEEN_LOOKS, _PART_OF_LOOKS * (time.monotonic() - began))
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
        if self._revive is not None:
            self._revive()
        try:
            self._client = connect(self._scheduler, self._security)
        except HostError:
            if not self._looked:
                raise


def _raised_by_task(future: Any, error: BaseException) -> bool:
    """Whether the task raised it on its host, as with a full disk: then the host is there, and would do so again."""
    return future.status == "error" and not isinstance(error, _UNFINISHED)


def _reason(error: BaseException | None) -> str:
    if isinstance(error, OctavoError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]


def _together(futures: Sequence[Any], seconds: float) -> dict[Any, Any]:
    """The results of those that have ended well, by their keys; empty when one of them cannot be had in so many
    seconds."""
    good = [future for future in futures if future.status == "finished"]
    if len(good) < 2:
        return {}
    client = good[0].client
    try:
        results = client.sync(lambda: client.gather(good, asynchronous=True), callback_timeout=seconds)
        return {one.key: result for one, result in zip(good, results, strict=True)}
    except Exception:  # whose it is shows when each is asked for by itself
        return {}


def _result(future: Any, results: Mapping[Any, Any], seconds: float) -> Any:
    """What a task returned, out of these results or from its host. Raises what the task raised, or Dask."""
    return results[future.key] if future.key in results else future.result(timeout=seconds)
