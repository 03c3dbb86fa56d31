"""What Dask's servers do in a fleet, without a network."""

import asyncio
from pathlib import Path
from typing import Any

from octavo.fleet.servers import FleetScheduler, HostWorker
from octavo.fleet.tls import quiet


def test_a_host_seldom_reports_to_the_scheduler(tmp_path: Path) -> None:
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
