"""The hosts that are present and what each is doing, as the scheduler knows it."""

from collections.abc import Sequence
from typing import Any

from octavo.errors import HostError
from octavo.fleet import certificates
from octavo.fleet.connection import connect, workers_of
from octavo.fleet.tls import BENCH, quiet, security


def look(scheduler: str, expected: Sequence[str]) -> list[dict[str, Any]]:
    """Returns each host's name, `state` (`measures`, `waits`, `is away`) and address. Raises HostError."""
    quiet()
    try:
        with connect(scheduler, security(certificates.COORDINATOR)) as client:
            workers = workers_of(client)
            busy = {address for address, tasks in client.processing().items() if tasks}
    except OSError as error:
        raise HostError(f"the scheduler at {scheduler} was lost: {error}; octavo fleet run starts it again") from error
    found = {
        str(worker["name"]): {
            "host": str(worker["name"]),
            "state": "measures" if address in busy else "waits",
            "address": address,
        }
        for address, worker in workers.items()
        if BENCH in worker.get("resources", {})
    }
    return [*found.values(), *away([name for name in expected if name not in found])]


def away(names: Sequence[str]) -> list[dict[str, Any]]:
    """The same rows for hosts that the scheduler does not know."""
    return [{"host": name, "state": "is away", "address": None} for name in names]
