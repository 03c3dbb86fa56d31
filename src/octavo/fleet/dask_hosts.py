"""The hosts of a fleet as the coordinator sees them: which are present, their orders and their deliveries."""

import contextlib
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, Queue
from typing import Any, Self

# This must come before the import of Dask.
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
from octavo.text import one_line

# The module is only partly typed.
_dask: Any = distributed
_wait = _dask.wait

# Seconds between two checks of which hosts are present. With hundreds of hosts the checks take at most a twentieth of
# the time.
_BETWEEN_LOOKS = 1.0
_PART_OF_LOOKS = 20
# Seconds to fetch a result that is ready, and to wait for the last results of a run.
_FETCH_SECONDS = 60
_LAST_WORDS_SECONDS = 60.0
# Seconds to notify the hosts that are still busy at the end of a run.
_LEAVE_SECONDS = 10.0
_FETCHED_AT_ONCE = 500
# Dask raises these when a task did not finish or its result was lost. A task itself may raise the last two.
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
    """A request to a host. `event` makes an event from its result and the time at which the result was ready."""

    host: str
    seen: _Seen
    future: Any
    event: Callable[[Any, float], HostEvent]


class DaskHosts:
    """A connection to a scheduler, re-established when it breaks. Only one thread may use it."""

    def __init__(
        self, scheduler: str, revive: Callable[[], None] | None = None, tasks: Any = workshop, secured: Any = None
    ) -> None:
        """`revive` is called before every connection and starts the scheduler unless it is running. `tasks` is the
        module whose functions the hosts run. `secured`: the certificates; by default the fleet's."""
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
        """Connects to the workers of an existing Dask cluster, with the certificates in Dask's configuration or else
        the fleet's own."""
        return cls(scheduler, secured=configured_security())

    def present(self) -> frozenset[str]:
        """The hosts that were present at the last check. Any thread may call this."""
        return frozenset(self._seen)

    def wait_for(self, names: Collection[str], seconds: float) -> frozenset[str]:
        """Waits until all of these hosts are present, at most so many seconds. Returns the hosts that are present."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            if self.present() >= frozenset(names) or time.monotonic() >= deadline:
                return self.present()
            time.sleep(_BETWEEN_LOOKS)

    def begin(self, order: RunOrder) -> None:
        """Asks a host to prepare for a run."""
        self._ask(order.host, self._tasks.begin, order, lambda report, _: Began(order.host, report))

    def measure(self, host: str, order: PartOrder) -> None:
        """Queues a part on a host, after its earlier orders."""
        self._ask(host, self._tasks.measure, order, lambda delivery, now: Delivered(host, delivery, now, order))

    def narrow(self, run: str, cells: Collection[str], names: Collection[str] | None = None) -> None:
        """Tells these hosts, or all, that only these cells of their orders are still undecided. This bypasses the task
        queue."""
        # A host that misses this message only measures more than it needs to.
        self._tell(names, self._tasks.narrow, run, sorted(cells))

    def hold(self, run: str, names: Collection[str]) -> None:
        """Tells these hosts that the run is still active, so that no other run replaces it. This bypasses the task
        queue."""
        self._tell(names, self._tasks.hold, run)

    def _tell(self, names: Collection[str] | None, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        """Runs `work` on these hosts, or on all, outside of the task queue. Returns the thread that does so; it ends
        when they are done. Hosts that cannot be reached are skipped silently."""
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
        """Tells the present hosts (these, or all) that the run is over, and waits until they have restored their
        settings. Returns what they had not delivered yet, for example after a reconnect at the last moment.

        A host that is still in a trial restores its settings after that trial: its task here is dropped when we leave,
        and `leave` tells it so.
        """
        asked = {host for host in self._seen if names is None or host in names}
        answers: dict[str, tuple[Any, float]] = {}
        try:
            answers = self._of_all(lambda host: (self._tasks.finish, run, have(host)), names)
        finally:
            if late := asked - answers.keys():
                self._tell(late, self._tasks.leave, run).join(_LEAVE_SECONDS)
        return [Delivered(host, *answer) for host, answer in answers.items() if answer[0] is not None]

    def ask_all(self, work: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Runs `work` on all present hosts. Returns the results of those that answered."""
        return {host: result for host, (result, _) in self._of_all(lambda _: (work, *arguments), None).items()}

    def gather(self, orders: Sequence[Order]) -> list[Any]:
        """Runs the orders and returns the results in the same order, without a timeout. Raises the first task's error,
        or HostError when a host is lost."""
        asked = self._submit_all(orders)
        try:
            return [self._answer(*one) for one in asked]
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel([future for _, _, future in asked if future is not None and not future.done()])

    def answers(self, orders: Sequence[Order]) -> dict[str, Any]:
        """Runs one order per host, without a timeout. Returns the result, or the OctavoError, by host."""
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
        """Returns the task's result. Raises the task's error with the host's name, or HostError when the host is
        lost."""
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

    def _of_all(
        self, order: Callable[[str], tuple[Any, ...]], names: Collection[str] | None
    ) -> dict[str, tuple[Any, float]]:
        """Runs an order on every present host, or on these. Returns the results of those that answered, each with the
        time at which it was ready."""
        if self._client is None:
            return {}
        asked = {
            host: self._submit(seen, *order(host))
            for host, seen in self._seen.items()
            if names is None or host in names
        }
        # A host that answers at once is not a minute behind because another one does not.
        ready: dict[str, float] = {}

        def note(host: str, _: Any) -> None:
            ready[host] = time.time()

        for host, future in asked.items():
            future.add_done_callback(partial(note, host))
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        with contextlib.suppress(Exception), self._client.as_current():
            _wait(list(asked.values()), timeout=_LAST_WORDS_SECONDS)
        results = _together(list(asked.values()), _FETCH_SECONDS)
        found: dict[str, tuple[Any, float]] = {}
        for host, future in asked.items():
            with contextlib.suppress(Exception):
                result = _result(future, results, max(0.1, deadline - time.monotonic()))
                found[host] = result, ready.get(host, time.time())
        return found

    def next_event(self, seconds: float) -> HostEvent | None:
        """Returns the next event, or None when there is none within so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            if time.monotonic() - self._looked >= self._between:
                self.look()
            with contextlib.suppress(Empty):
                return self._events.get(timeout=max(0.0, min(_BETWEEN_LOOKS, deadline - time.monotonic())))
            if time.monotonic() >= deadline:
                return None

    def close(self) -> None:
        """Closes the connection to the scheduler."""
        self._ended.put(None)
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=5)
            self._client = None

    def _ask(self, host: str, work: Callable[..., Any], order: Any, event: Callable[[Any, float], HostEvent]) -> None:
        seen = self._seen.get(host)
        if self._client is None or seen is None:
            return  # it has left, which `look` reports
        future = self._submit(seen, work, order)
        seen.asked.add(future)
        asked = _Request(host, seen, future, event)

        def done(_: Any) -> None:
            # Take the time here: fetching many results may take longer than the tolerated clock difference.
            self._ended.put((asked, time.time()))

        future.add_done_callback(done)

    def _fetch(self) -> None:
        """Fetches the results of finished tasks, in its own thread, many in one message. `look` handles cancelled
        tasks."""
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
            else:  # either the host or the connection failed: the next look shows which
                self._broken.add(ended.seen.identity)
        except workshop.NotBegun:  # a worker started anew at the same address took the task: the next look has it begin
            self._broken.add(ended.seen.identity)
        except Exception as error:
            self._events.put(Refused(ended.host, _reason(error)))

    def _submit(self, seen: _Seen, work: Callable[..., Any], *arguments: Any) -> Any:
        assert self._client is not None
        self._submitted += 1  # first submitted, first done
        return self._client.submit(
            work, *arguments, workers=[seen.address], allow_other_workers=False, resources={BENCH: 1}, pure=False,
            retries=0, priority=-self._submitted,
        )  # fmt: skip

    def look(self) -> None:
        """Updates the list of present hosts."""
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
    """Whether the task itself raised this error on its host, for example for a full disk: the host is still present."""
    return future.status == "error" and not isinstance(error, _UNFINISHED)


def _reason(error: BaseException | None) -> str:
    if isinstance(error, OctavoError):
        return str(error)
    return f"{type(error).__name__}: {one_line(error)}"[:500]


def _together(futures: Sequence[Any], seconds: float) -> dict[Any, Any]:
    """The results of the tasks that succeeded, by key. Empty when one of them cannot be fetched within so many
    seconds."""
    good = [future for future in futures if future.status == "finished"]
    if len(good) < 2:
        return {}
    client = good[0].client
    try:
        results = client.sync(lambda: client.gather(good, asynchronous=True), callback_timeout=seconds)
        return {one.key: result for one, result in zip(good, results, strict=True)}
    except Exception:  # fetching them one by one shows which one failed
        return {}


def _result(future: Any, results: Mapping[Any, Any], seconds: float) -> Any:
    """The result of a task, from `results` or fetched from its host. Raises the task's error, or Dask's."""
    return results[future.key] if future.key in results else future.result(timeout=seconds)
