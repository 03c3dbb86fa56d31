"""The behaviour of Dask's servers in a fleet, without a network."""

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

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


def test_where_nobody_listens_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def tries_for_long(*_: Any, **__: Any) -> None:
        raise AssertionError("Dask was asked")

    monkeypatch.setattr(distributed, "Client", tries_for_long)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(HostError, match=re.escape(f"{address} does not respond: Connection refused")):
            connect(address, None)
