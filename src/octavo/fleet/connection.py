"""A client of a scheduler, and the list of its workers. Connecting fails at once if nothing listens; otherwise it waits
as long as a busy scheduler needs.
"""

import socket
from typing import Any

from octavo.errors import HostError
from octavo.fleet.tls import split_address, tls_address

# Timeouts in seconds: for the check that something listens, and the shortest for the answer. Dask allots a fifth of the
# latter to its first attempt, which has to suffice for a TLS handshake on a loaded machine.
_REACH_SECONDS, _ANSWER_SECONDS = 10.0, 30.0


def connect(scheduler: str, secured: Any) -> Any:
    """Returns a Dask client that uses these certificates. Dask's own connect timeout applies where it is longer. Raises
    HostError."""
    import distributed
    from dask import config, utils

    # These modules are only partly typed.
    dask: Any = distributed
    configuration: Any = config
    units: Any = utils
    configured: float = units.parse_timedelta(configuration.get("distributed.comm.timeouts.connect"))
    address = tls_address(scheduler)
    try:
        # Dask would keep retrying an address where nothing listens.
        socket.create_connection(split_address(address), timeout=_REACH_SECONDS).close()
        return dask.Client(
            address, security=secured, timeout=max(_ANSWER_SECONDS, configured), set_as_default=False,
            direct_to_workers=False,
        )  # fmt: skip
    except (OSError, RuntimeError, UnicodeError) as error:  # the last for a name that no host can have
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise HostError(
            f"the scheduler at {scheduler} does not respond: {reason}; octavo fleet run starts a fleet's own"
        ) from error


def workers_of(client: Any) -> dict[str, Any]:
    """Returns what the scheduler knows of its workers, by address. Raises OSError when it does not answer.

    Dask's `scheduler_info` may return a value that the client's own loop has just replaced: every two seconds that loop
    asks for zero workers, so on a busy machine all workers seem to have left.
    """
    return client.sync(client.scheduler.identity, n_workers=-1)["workers"]
