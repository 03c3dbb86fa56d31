"""One interval of requests: a row for each process, device and direction, and each device's own counters beside."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from octavo.host.diskstats import DiskTotals
from octavo.instruments.request_counter import Direction
from octavo.iotop.activity import ProcessActivity
from octavo.iotop.process_info import IO_WORKER, WRITE_BACK, ProcessInfo, has_no_title
from octavo.iotop.process_io import AskedOf, SystemCalls

SCHEMA_VERSION = 1


@dataclass(slots=True)
class RequestSum:
    """Requests and bytes so far; `requests` is None where the source counts none."""

    requests: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class IoWorkerClient:
    """A process for which io workers read, and its share of the bytes that were met in flight, of all workers."""

    pid: int
    share: float
    database: str | None
    query: str | None


@dataclass(frozen=True, slots=True)
class RequestRow:
    """The requests of a process to a device in the interval; `through` is io_uring if its worker thread made them.

    `readers` are the processes for which an io worker read; `asked` are the process's system calls in the same
    direction, over all files, None if not visible.
    """

    who: ProcessInfo
    device: str | None
    direction: Direction
    requests: int | None
    bytes: int
    through: str | None
    database: str | None
    query: str | None
    readers: tuple[IoWorkerClient, ...] = ()
    asked: SystemCalls | None = None

    @property
    def bytes_per_request(self) -> float | None:
        """The mean size of a request."""
        return self.bytes / self.requests if self.requests else None

    @property
    def role(self) -> str | None:
        """The role of the process. A kernel worker writes pages that others dirtied before."""
        if self.who.kernel and self.who.pid is None and self.direction == "write":
            return WRITE_BACK
        return self.who.role

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "uid": self.who.uid,
            "pid": self.who.pid,
            "parent": self.who.parent,
            "command": self.who.command,
            "role": self.role,
            "kernel": self.who.kernel,
            "ended": self.who.ended,
            "database": self.database,
            "query": self.query,
            "device": self.device,
            "direction": self.direction,
            "requests": self.requests,
            "bytes": self.bytes,
            "bytes_per_request": self.bytes_per_request,
            "through": self.through,
            "asked": None if self.asked is None else asdict(self.asked),
            "readers": [asdict(reader) for reader in self.readers],
        }


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """The data of one view. Times in seconds; `cost_seconds` is the monitoring overhead in the interval, and
    `cost_share` its share of the machine's.
    """

    time: float
    seconds: float
    source: str
    rows: tuple[RequestRow, ...]
    devices: Mapping[str, DiskTotals]
    blind: Mapping[str, str]
    lost_events: int
    cost_seconds: float
    cost_share: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "time": self.time,
            "seconds": self.seconds,
            "source": self.source,
            "rows": [row.as_dict() for row in self.rows],
            "devices": [{"device": name, **_counted(totals)} for name, totals in self.devices.items()],
            "blind": [{"part": part, "reason": reason} for part, reason in self.blind.items()],
            "lost_events": self.lost_events,
            "cost_cpu_seconds": self.cost_seconds,
            "cost_share": self.cost_share,
        }


@dataclass(frozen=True, slots=True)
class RowKey:
    """The key by which requests are summed into one row."""

    who: ProcessInfo
    device: str | None
    direction: Direction
    ring: bool


def settled(
    sums: Mapping[RowKey, RequestSum], meet: Callable[[int], ProcessInfo] | None = None
) -> dict[RowKey, RequestSum]:
    """One identity for each process, because a server's process has no role in its first moments, nor after it has
    ended.

    Processes without a role are looked up again: a connection that was open for a moment has ended.
    """
    best: dict[int, ProcessInfo] = {}
    for who in (key.who for key in sums):
        if who.pid is not None and (who.pid not in best or (who.role is not None and not who.ended)):
            best[who.pid] = who
    for pid, who in best.items():
        if meet is not None and has_no_title(who):
            best[pid] = meet(pid)
    found: dict[RowKey, RequestSum] = {}
    for key, one in sums.items():
        known = key if key.who.pid is None else replace(key, who=best[key.who.pid])
        total = found.setdefault(known, RequestSum(None, 0))
        total.bytes += one.bytes
        if one.requests is not None:
            total.requests = (total.requests or 0) + one.requests
    return found


def rows_of(
    sums: Mapping[RowKey, RequestSum],
    doing: Mapping[int, ProcessActivity],
    postmaster: int | None,
    shares: Mapping[int, float],
    asked: Mapping[int, AskedOf] | None = None,
) -> tuple[RequestRow, ...]:
    """The rows, most bytes first. The server's reports are accepted for its own children only, because pids are this
    host's.

    `shares` are those of the processes for which the server's io workers read; `asked` are the system calls of each
    process, by pid.
    """
    found: list[RequestRow] = []
    nothing = ProcessActivity(None, None, None)
    readers = tuple(
        IoWorkerClient(pid, share, doing.get(pid, nothing).database, doing.get(pid, nothing).query)
        for pid, share in shares.items()
    )
    for key, total in sums.items():
        who = key.who
        reported = doing.get(who.pid) if who.pid is not None and who.parent == postmaster is not None else None
        if reported is not None and reported.role and not who.ended:
            who = replace(who, role=reported.role)
        through = "io_uring" if key.ring else None
        database, query = (reported.database, reported.query) if reported else (None, None)
        calls = (asked or {}).get(who.pid) if who.pid is not None and not who.ended else None
        of_worker = who.role == IO_WORKER and who.parent == postmaster is not None and key.direction == "read"
        found.append(
            RequestRow(
                who, key.device, key.direction, total.requests, total.bytes, through, database, query,
                readers if of_worker else (), calls.of(key.direction) if calls else None,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=_order))


def busy_devices(
    now: Mapping[str, DiskTotals], before: Mapping[str, DiskTotals], names: Sequence[str]
) -> dict[str, DiskTotals]:
    """The counters of these disks since then; idle disks are left out."""
    zero = DiskTotals(0, 0, 0, 0)
    found = {name: now[name].since(before.get(name, zero)) for name in names if name in now}
    return {name: totals for name, totals in found.items() if totals.reads or totals.writes or totals.discards}


def _counted(totals: DiskTotals) -> dict[str, int | None]:
    """The requests and their bytes, by name."""
    return {name: value for name, value in asdict(totals).items() if name != "busy_ms"}


def _order(row: RequestRow) -> tuple[Any, ...]:
    return (-row.bytes, row.who.pid or 0, row.device or "", row.direction, row.through or "")
