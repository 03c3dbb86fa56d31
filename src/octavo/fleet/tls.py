"""How Octavo uses Dask: always with mutual TLS, with little logging, and without other listeners."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.errors import HostError, UsageError
from octavo.fleet.certificates import paths_of

if TYPE_CHECKING:
    from distributed.security import Security

# The Dask resource of a host: it allows one trial at a time.
BENCH = "bench"
_LAST_PORT = 65535

# Dask's own background work costs CPU on a host that measures: a profile of its own thread, event-loop ticks every 20
# ms, a check of the whole process every 500 ms.
_QUIET: dict[str, Any] = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.diagnostics.nvml": False,
    "distributed.worker.memory.monitor-interval": "10s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,  # a part belongs to its host
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.multiprocessing-method": "spawn",
}


def quiet() -> None:
    """Sets Dask's configuration in this process. Call it before importing `distributed`."""
    from dask import config

    # Importing the module applies its settings.
    from octavo.fleet import dask_settings  # noqa: F401 # pyright: ignore[reportUnusedImport]

    config.set(_QUIET)
    # A connection that ends during a send, as at the end of a run, is expected: do not log a traceback.
    logging.getLogger("distributed.batched").setLevel(logging.WARNING)


def security(role: str) -> "Security":
    """Requires certificates on every connection of this process. Raises HostError when they are missing."""
    from distributed.security import Security

    authority, certificate, key = paths_of(role)
    files: dict[str, Any] = {"tls_ca_file": authority}
    for party in ("scheduler", "worker", "client"):
        files |= {f"tls_{party}_cert": certificate, f"tls_{party}_key": key}
    return Security(require_encryption=True, **files)


def configured_security() -> "Security | None":
    """The client certificates of Dask's configuration (`distributed.comm.tls`, or DASK_DISTRIBUTED__COMM__TLS__CA_FILE
    and so on), or None if it has none. Raises HostError when one cannot be read, or when other users can read the
    key."""
    from dask import config
    from distributed.security import Security

    configuration: Any = config  # the module is only partly typed
    names = ("ca-file", "client.cert", "client.key")
    files = [configuration.get(f"distributed.comm.tls.{name}", None) for name in names]
    if not all(files):
        return None
    authority, certificate, key = map(str, files)
    for file in (authority, certificate, key):
        try:
            mode = Path(file).stat().st_mode
            Path(file).open("rb").close()
        except OSError as error:
            raise HostError(f"{file}, of Dask's configuration, cannot be read: {error.strerror}") from error
        if file == key and mode & 0o077:
            raise HostError(f"{key} may be read by others; chmod 600 it")
    options: dict[str, Any] = {"tls_ca_file": authority, "tls_client_cert": certificate, "tls_client_key": key}
    return Security(require_encryption=True, **options)


def tls_address(text: str) -> str:
    """The address as Dask takes it: with its protocol prefix, and an IPv6 address in brackets. Raises UsageError for
    another protocol, and without a port."""
    protocol, found, rest = text.partition("://")
    if found and protocol != "tls":
        raise UsageError(f"{text}: a fleet speaks TLS only; write tls://{rest}")
    address, port = split_address(text)
    return f"tls://{bracketed(address)}:{port}"


def bracketed(address: str) -> str:
    """The address as Dask takes it without a port: an IPv6 address in brackets."""
    return f"[{address}]" if ":" in address else address


def split_address(text: str) -> tuple[str, int]:
    """Splits ADDRESS:PORT. Raises UsageError."""
    address, colon, port = text.removeprefix("tls://").rpartition(":")
    if not colon or not port.isdecimal() or len(port) > 5 or int(port) > _LAST_PORT:
        raise UsageError(f"{text}: write an address and a port, such as 10.0.0.1:8786")
    return address.strip("[]"), int(port)
