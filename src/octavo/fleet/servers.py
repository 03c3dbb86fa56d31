"""The two servers: the scheduler, and the worker of a host. Each listens with TLS, only on its given address."""

import asyncio
import ipaddress
import resource
import shutil
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

# This must come before the import of Dask.
from octavo.fleet import dask_settings  # noqa: F401 # pyright: ignore[reportUnusedImport]

# isort: split
from dask import config
from distributed import Scheduler, Worker
from distributed.diagnostics.plugin import SchedulerPlugin

from octavo.errors import HostError
from octavo.fleet import certificates, workshop
from octavo.fleet.identity import package_digest
from octavo.fleet.launch import scheduler_scratch
from octavo.fleet.listener import guard
from octavo.fleet.tls import BENCH, bracketed, quiet, security, split_address, tls_address
from octavo.home import make_directory, octavo_home

# Seconds between two attempts to reach the scheduler again.
_PAUSE = 1.0
# Seconds that the command which starts a host's worker waits for it to listen.
_FIRST_TRY_SECONDS = 20.0
# Seconds between two heartbeats of a host. Dask's default is half a second in a small fleet, which costs milliseconds
# of CPU while a host measures. Nothing waits for heartbeats: TCP keepalive detects a host that is away.
_HEARTBEAT_SECONDS = 10.0
# The number of connections that a scheduler may have, if the machine allows it.
_DESCRIPTORS = 65536


class _NoWebPages:
    """Disables the web server of Dask's servers."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Does nothing."""


class FleetScheduler(_NoWebPages, Scheduler):
    """Dask's scheduler, with a longer heartbeat interval."""

    def heartbeat_worker(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Returns Dask's answer with a longer heartbeat interval."""
        dask: Any = super()
        answer: dict[str, Any] = dask.heartbeat_worker(*arguments, **options)
        return {**answer, "heartbeat-interval": _HEARTBEAT_SECONDS}


class _ConnectAtJoin(SchedulerPlugin):
    """Opens the scheduler's own connection to a host when the host joins: with many hosts the handshakes would delay
    the first trials of a run."""

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Called by Dask for each new worker."""
        scheduler.loop.add_callback(_connect, scheduler.rpc, worker)


async def _connect(connections: Any, address: str) -> None:
    with suppress(Exception):  # the next request to the host reports the error
        connections.reuse(address, await connections.connect(address))


class HostWorker(_NoWebPages, Worker):
    """Dask's worker. A trial in the main thread continues when the worker loses its scheduler."""

    async def close(self, *arguments: Any, **options: Any) -> Any:
        """Closes without waiting for a trial."""
        return await super().close(*arguments, **{**options, "executor_wait": False})


def serve_scheduler(listen: str, ready: Callable[[], None]) -> None:
    """Runs the scheduler of a fleet until a KeyboardInterrupt. Raises HostError, or OSError when the address is in
    use."""
    quiet()
    _take_descriptors()
    guard()
    address, port = split_address(listen)
    secured = security(certificates.COORDINATOR)
    scratch = scheduler_scratch()
    shutil.rmtree(scratch, ignore_errors=True)  # left by one that was killed
    config.set({"temporary-directory": str(make_directory(scratch, 0o700))})

    async def run() -> None:
        async with FleetScheduler(
            host=bracketed(address), port=port, protocol="tls", security=secured, dashboard=False, validate=False,
            plugins=[_ConnectAtJoin()],
        ) as scheduler:  # fmt: skip
            ready()
            await scheduler.finished()

    try:
        asyncio.run(run())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _take_descriptors() -> None:
    """Raises the descriptor limit: a scheduler has three connections per host, so 1024, the usual soft limit, is too
    few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if most == resource.RLIM_INFINITY else min(_DESCRIPTORS, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def serve_host(scheduler: str, listen: str, name: str, ready: Callable[[], None]) -> None:
    """Runs the worker of this host until a KeyboardInterrupt. Measures in this thread, which must be the main one.
    Raises HostError when the scheduler could not reach it."""
    refuse_loopback(listen, scheduler)
    package_digest()  # of what runs here: an update may replace the files while the worker waits for a run
    quiet()
    guard()
    address, port = split_address(listen)
    secured = security(certificates.HOST)
    scratch = make_directory(octavo_home() / "fleet" / "dask", 0o700)

    def worker() -> HostWorker:
        return HostWorker(
            tls_address(scheduler), name=name, nthreads=1, resources={BENCH: 1}, host=bracketed(address), port=port,
            protocol="tls", security=secured, memory_limit=0, local_directory=str(scratch), dashboard=False,
        )  # fmt: skip

    connection = _Connection(worker)
    connection.start()
    connection.tried.wait(_FIRST_TRY_SECONDS)
    ready()
    try:
        workshop.BENCH.serve()
    finally:
        connection.stop()


def refuse_loopback(listen: str, scheduler: str) -> None:
    """Raises HostError when the address to listen at is a loopback address here, as a host's own name is on Debian
    (127.0.1.1), and the scheduler is on another machine: it would see the host come and go for ever."""
    address, _ = split_address(listen)
    found = _resolved(address)
    if found and all(ipaddress.ip_address(one).is_loopback for one in found) and not _is_here(scheduler):
        raise HostError(
            f"{address} is {found[0]} on this host, where the scheduler cannot reach it; write its address in the "
            'hosts file, such as listen = "10.0.0.7:8790"'
        )


def _is_here(scheduler: str) -> bool:
    """Whether the scheduler's address is one of this machine's."""
    for one in _resolved(split_address(scheduler)[0]):
        family = socket.AF_INET6 if ":" in one else socket.AF_INET
        with suppress(OSError), socket.socket(family) as probe:
            probe.bind((one, 0))
            return True
    return False


def _resolved(address: str) -> list[str]:
    """The numeric addresses of a name; none if it has none, which Dask reports."""
    try:
        return [str(one[4][0]) for one in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


class _Connection(threading.Thread):
    """Runs Dask's event loop in its own thread: a worker, and a new one whenever it has lost its scheduler."""

    def __init__(self, worker: "Callable[[], HostWorker]") -> None:
        super().__init__(name="dask", daemon=True)
        self._worker = worker
        self._loop = asyncio.new_event_loop()
        self._stopping: asyncio.Event | None = None
        # Set once the first worker listens or has failed to.
        self.tried = threading.Event()

    def run(self) -> None:
        """Runs until `stop`."""
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    def stop(self) -> None:
        """Disconnects from the scheduler and ends the thread."""
        if self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self.join(10)

    async def _serve(self) -> None:
        self._stopping = stopping = asyncio.Event()
        leaving = asyncio.ensure_future(stopping.wait())
        while not stopping.is_set():
            try:
                await self._serve_once(leaving, stopping)
            except Exception as error:  # also where no worker can be made, as on a full disk: without this thread the
                # host would be away for good, because its process runs
                print(f"not connected: {type(error).__name__}: {error}", flush=True)
                self.tried.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(leaving), _PAUSE)

    async def _serve_once(self, leaving: "asyncio.Future[Any]", stopping: asyncio.Event) -> None:
        worker = self._worker()
        try:
            await _first(leaving, worker.start())
            self.tried.set()
            if not stopping.is_set():
                await _first(leaving, worker.finished())
        finally:
            with suppress(Exception):
                await worker.close(timeout=2, nanny=False)


async def _first(leaving: "asyncio.Future[Any]", other: Awaitable[Any]) -> None:
    """Waits until one of the two is done. Raises what `other` raised; cancels it if it is not done."""
    task = asyncio.ensure_future(other)
    await asyncio.wait({leaving, task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    else:
        task.cancel()
