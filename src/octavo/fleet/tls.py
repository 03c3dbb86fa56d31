"""The use of Dask here: always with mutual TLS, quietly, and without other listeners."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.errors import HostError, UsageError
from octavo.fleet.certificates import paths_of

if TYPE_CHECKING:
    from distributed.security import Security

# The resource of a host: one trial at a time.
BENCH = "bench"
_LAST_PORT = 65535

# What Dask does besides costs a host processor time while it measures: a profile of its own thread, ticks of its loop
# every 20 ms, a look at the whole process every 500 ms.
_QUIET: dict[str, Any] = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.diagnostics.nvml": False,
    "distributed.worker.memory.monitor-interval": "10s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,  # a host's part is that host's
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.multiprocessing-method": "spawn",
}


def quiet() -> None:
    """Sets Dask's configuration in this process, before `distributed` is imported."""
    from dask import config

    # Takes effect when it is imported.
    from octavo.fleet import dask_settings  # noqa: F401 # pyright: ignore[reportUnusedImport]

    config.set(_QUIET)
    # A connection that ends while something is being sent, as at the end of a run, is no news: not with a traceback.
    logging.getLogger("distributed.batched").setLevel(logging.WARNING)


def security(role: str) -> "Security":
    """Certificates for every connection of this process, and none without. Raises HostError when they are not there."""
    from distributed.security import Security

    authority, certificate, key = paths_of(role)
    files: dict[str, Any] = {"tls_ca_file": authority}
    for party in ("scheduler", "worker", "client"):
        files |= {f"tls_{party}_cert": certificate, f"tls_{party}_key": key}
    return Security(require_encryption=True, **files)


def configured_security() -> "Security | None":
    """The certificates that Dask is configured with for a client (`distributed.comm.tls` in its configuration, or
    DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on), None where it is with none. Raises HostError when others may read
    the key."""
    from dask import config
    from distributed.security import Security

    configuration: Any = config  # its types are partly unknown
    names = ("ca-file", "client.cert", "client.key")
    files = [configuration.get(f"distributed.comm.tls.{name}", None) for name in names]
    if not all(files):
        return None
    authority, certificate, key = map(str, files)
    try:
        if Path(key).stat().st_mode & 0o077:
            raise HostError(f"{key} may be read by others; chmod 600 it")
    except OSError as error:
        raise HostError(f"{key}, of Dask's configuration, cannot be read: {error.strerror}") from error
    options: dict[str, Any] = {"tls_ca_file": authority, "tls_client_cert": certificate, "tls_client_key": key}
    return Security(require_encryption=True, **options)


def tls_address(text: str) -> str:
    """ADDRESS:PORT as Dask writes it. Raises UsageError for another protocol."""
    protocol, found, rest = text.partition("://")
    if not found:
        return f"tls://{text}"
    if protocol != "tls":
        raise UsageError(f"{text}: a fleet speaks TLS only; write tls://{rest}")
    return text


def split_address(text: str) -> tuple[str, int]:
    """Address and port. Raises UsageError."""
    address, colon, port = text.removeprefix("tls://").rpartition(":")
    if not colon or not port.isdecimal() or len(port) > 5 or int(port) > _LAST_PORT:
        raise UsageError(f"{text}: write an address and a port, such as 10.0.0.1:8786")
    return address.strip("[]"), int(port)
