"""The behaviour of Dask's servers in a fleet, without a network."""

import asyncio
import re
import socket
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from octavo.errors import HostError
from octavo.fleet.connection import connect
from octavo.fleet.tls import quiet

distributed: Any = pytest.importorskip("distributed")


def test_a_host_seldom_reports_to_the_scheduler(tmp_path: Path) -> None:
    from octavo.fleet.servers import FleetScheduler, HostWorker

    quiet()

    async def seconds() -> float:
        # Its types are partly unknown.
        scheduler: Any = FleetScheduler
        worker: Any = HostWorker
        async with (
            scheduler(protocol="inproc", dashboard=False) as there,
            worker(there.address, nthreads=1, local_directory=str(tmp_path), dashboard=False) as host,
        ):
            await host.heartbeat()
            return host.periodic_callbacks["heartbeat"].callback_time / 1000

    # Dask's own is half a second in a fleet of ten.
    assert asyncio.run(seconds()) == 10


def test_a_host_connects_again_whatever_went_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker that cannot be made, as on a full disk, and an error of Dask's own."""
    from octavo.fleet import servers

    connected = threading.Event()
    made: list[_Worker] = []

    def make() -> Any:
        made.append(_Worker(connected, fails=len(made) == 1))
        if len(made) == 1:
            raise OSError(28, "No space left on device")
        return made[-1]

    monkeypatch.setattr(servers, "_PAUSE", 0.01)
    connection = servers._Connection(make)  # pyright: ignore[reportPrivateUsage]
    connection.start()
    try:
        assert connected.wait(60)
    finally:
        connection.stop()
    assert not connection.is_alive()
    assert len(made) == 3
    assert re.findall("not connected: (.*)", capsys.readouterr().out) == [
        "OSError: [Errno 28] No space left on device", "KeyError: 'worker'",
    ]  # fmt: skip


class _Worker:
    def __init__(self, connected: threading.Event, *, fails: bool) -> None:
        self._connected, self._fails = connected, fails

    async def start(self) -> None:
        if self._fails:
            raise KeyError("worker")
        self._connected.set()

    async def finished(self) -> None:
        await asyncio.Event().wait()

    async def close(self, **_: Any) -> None:
        pass


def test_where_nobody_listens_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def tries_for_long(*_: Any, **__: Any) -> None:
        raise AssertionError("Dask was asked")

    monkeypatch.setattr(distributed, "Client", tries_for_long)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(HostError, match=re.escape(f"{address} does not respond: Connection refused")):
            connect(address, None)


def test_a_name_that_no_host_can_have_is_an_error() -> None:
    with pytest.raises(HostError, match=r"the scheduler at a\.\.b:8786 does not respond"):
        connect("a..b:8786", None)


def test_a_host_does_not_listen_where_the_scheduler_cannot_reach_it() -> None:
    """Debian gives a host's own name the address 127.0.1.1."""
    from octavo.fleet.servers import refuse_loopback

    with pytest.raises(HostError, match=r"localhost is .* on this host, .* listen = "):
        refuse_loopback("localhost:8790", "192.0.2.1:8786")
    refuse_loopback("localhost:8790", "127.0.0.1:8786")
    refuse_loopback("192.0.2.7:8790", "192.0.2.1:8786")


def test_dask_gets_ipv6_addresses_in_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses others."""
    from octavo.fleet import servers

    connection, worker = Mock(), Mock()
    for name in ("package_digest", "security", "guard"):
        monkeypatch.setattr(servers, name, Mock())
    monkeypatch.setattr(servers, "octavo_home", lambda: tmp_path)
    monkeypatch.setattr(servers, "_Connection", connection)
    monkeypatch.setattr(servers, "HostWorker", worker)
    monkeypatch.setattr(servers.workshop.BENCH, "serve", lambda: None)
    servers.serve_host("2001:db8::1:8786", "[2001:db8::7]:8790", "a", lambda: None)
    connection.call_args.args[0]()
    assert worker.call_args.args == ("tls://[2001:db8::1]:8786",)
    assert (worker.call_args.kwargs["host"], worker.call_args.kwargs["port"]) == ("[2001:db8::7]", 8790)


def test_a_worker_is_identified_before_an_update_can_replace_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from octavo.fleet import servers

    done: list[str] = []

    monkeypatch.setattr(servers, "package_digest", lambda: done.append("identified"))
    monkeypatch.setattr(servers, "security", Mock())
    monkeypatch.setattr(servers, "guard", lambda: None)
    monkeypatch.setattr(servers, "octavo_home", lambda: tmp_path)
    monkeypatch.setattr(servers, "_Connection", Mock())
    monkeypatch.setattr(servers.workshop.BENCH, "serve", lambda: None)
    servers.serve_host("127.0.0.1:8786", "127.0.0.1:8790", "a", lambda: done.append("ready"))
    assert done == ["identified", "ready"]
