"""The best source of requests available to this host and user, with a reason for each better one that is not
available."""

from collections.abc import Callable
from typing import Literal

from octavo.errors import HostError
from octavo.host.journal import Journal
from octavo.iotop.from_bpf import FromBpf
from octavo.iotop.from_proc import FromProc
from octavo.iotop.from_tracefs import FromTracefs
from octavo.iotop.request_source import RequestSource

Choice = Literal["auto", "bpf", "tracefs", "proc"]
_WITHOUT = {
    "bpf": "requests cannot be counted in the kernel with BPF",
    "tracefs": "requests cannot be traced",
}
_ONLY_PROC = (
    "from /proc/PID/io: bytes of visible processes, without devices and requests; writes are counted when pages are "
    "dirtied, not when they are written back"
)


def open_source(
    choice: Choice, device: int | None, journal: Callable[[], Journal], *, submitted: bool = False
) -> tuple[RequestSource, dict[str, str]]:
    """The source, and what it cannot show. Raises HostError if the requested source is not available.

    `device` limits it to a disk (dev_t) if the source distinguishes disks; `submitted` is for one that makes no
    requests itself (`devices.without_queue`). The journal is created only if something needs undoing.
    """
    blind: dict[str, str] = {}
    makers: dict[str, Callable[[], RequestSource]] = {
        "bpf": lambda: FromBpf(device, submitted=submitted),
        "tracefs": lambda: FromTracefs(device, journal(), submitted=submitted),
        "proc": FromProc,
    }
    for name, make in makers.items():
        if choice not in ("auto", name):
            continue
        try:
            source = make()
        except OSError as error:
            blind[name] = f"{_WITHOUT[name]} ({_reason(error)})"
            if choice == name:
                raise HostError(f"{blind[name]}; without --source {name} the next best source is used") from error
            continue
        if name == "proc":
            blind[name] = _ONLY_PROC + ("" if device is None else "; all disks together, --device is ignored")
        return source, blind
    raise AssertionError("/proc is always available")


def _reason(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "it needs root with all capabilities, which a container may lack"
    return (error.strerror or str(error)).lower()
