"""Who is there, and what each host is doing, as the scheduler knows it."""

from collections.abc import Sequence
from typing import Any

from octavo.errors import HostError
from octavo.fleet import certificates
from octavo.fleet.tls import BENCH, quiet, security, tls_address


def look(scheduler: str, expected: Sequence[str]) -> list[dict[str, Any]]:
    """For each host: its name, `state` (`measures`, `waits`, `is away`) and its address. Raises HostError."""
    from distributed import Client

    quiet()
    try:
        client: Any = Client(
            tls_address(scheduler), security=security(certificates.COORDINATOR), timeout=10, set_as_default=False
        )
        with client:
            workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
            busy = {address for address, tasks in client.processing().items() if tasks}
    except (OSError, TimeoutError) as error:
        raise HostError(f"the scheduler at {scheduler} does not respond; octavo fleet run starts it") from error
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
    """The same for hosts that the scheduler does not know."""
    return [{"host": name, "state": "is away", "address": None} for name in names]
