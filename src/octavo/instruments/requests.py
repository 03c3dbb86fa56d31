"""The requests that reach the data directory's device, by process and size.

Source: the kernel's tracepoint block:block_rq_issue (include/trace/events/block.h), counted in the kernel by BPF
programs of our own (`request_programs.py`). A request counts when it is issued, after merging and splitting, for the
process that started it; writeback is the kernel's. Needs root.
"""

from collections.abc import Collection
from pathlib import Path

from octavo.host.block_devices import device_under
from octavo.host.process_table import read_process, title_of
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Figure, Rate, Ratio, Reading, Total
from octavo.instruments.request_counter import Direction, RequestCounter, Requests, direction_of, kernel_number
from octavo.instruments.target import Target
from octavo.observation import Metric
from octavo.postgres.process_roles import POSTMASTER, role_of
from octavo.units import format_size

KERNEL, OTHERS, GONE = "kernel", "other programs", "ended before they were identified"


class DeviceRequests:
    """Counters by role and, separately, by direction and size. A size class extends to its power of two."""

    period = 1.0
    asks_server = False
    figures: tuple[Figure, ...] = (
        Rate(Metric("request_reads_per_second", "reads at the device a second, by process", "1/s"), "reads"),
        Ratio(Metric("request_read_bytes", "bytes per read, by process", "bytes"), "read_bytes", "reads"),
        Rate(Metric("request_writes_per_second", "writes at the device a second, by process", "1/s"), "writes"),
        Ratio(Metric("request_write_bytes", "bytes per write, by process", "bytes"), "written_bytes", "writes"),
        Total(Metric("requests_of_size", "requests at the device, by size", "1"), "requests"),
    )

    def open(self, target: Target) -> Reader:
        """Raises UnavailableError without root. For a volume that makes no requests itself (device mapper, md), it
        counts submissions to it."""
        if target.directory is None:
            raise UnavailableError(target.no_directory)
        device, submitted = volume_under(target.directory)
        roles = _Roles(target)
        try:
            counter = RequestCounter(device, submitted=submitted)
        except PermissionError as error:
            raise UnavailableError("counting requests in the kernel needs root (CAP_BPF, CAP_PERFMON)") from error
        except OSError as error:
            raise UnavailableError(f"this kernel cannot count requests with BPF: {error.strerror or error}") from error

        total: dict[str | None, dict[str, float]] = {}

        def read() -> Reading:
            taken = counter.take()
            roles.keep({requests.pid for requests in taken})
            for requests in taken:
                direction = direction_of(requests.kind)
                if requests.size and direction is not None:
                    _add(total, roles.of(requests.pid), direction, requests)
            if lost := counter.lost():
                raise UnavailableError(f"{lost:,} requests were not counted: too many processes and sizes at once")
            return {item: dict(numbers) for item, numbers in total.items()}

        return Reader(read, counter.close)


def size_class(size: int) -> int:
    """The smallest power of two that holds the size.

    >>> size_class(4096), size_class(12288)
    (4096, 16384)
    """
    return 1 << (size - 1).bit_length()


def _add(found: dict[str | None, dict[str, float]], role: str, direction: Direction, requests: Requests) -> None:
    item = f"{direction} {format_size(size_class(requests.size))}"
    by_size = found.setdefault(item, {"requests": 0.0})
    by_size["requests"] += requests.count
    if direction != "discard":
        count, total = ("reads", "read_bytes") if direction == "read" else ("writes", "written_bytes")
        by_role = found.setdefault(role, dict.fromkeys(("reads", "read_bytes", "writes", "written_bytes"), 0.0))
        by_role[count] += requests.count
        by_role[total] += requests.count * requests.size


class _Roles:
    """The roles of processes; each is determined once while it makes requests, for its pid passes to others later."""

    def __init__(self, target: Target) -> None:
        self._target = target
        # It precedes the role in every title, where it is set (on Debian it is: 18/main).
        self._cluster_name = str(target.query("cluster_name")[0]["cluster_name"])
        self._known: dict[int, str] = {}

    def of(self, pid: int) -> str:
        """The role of the process: one of PostgreSQL's, or KERNEL, OTHERS, GONE."""
        if (role := self._known.get(pid)) is None:
            role = self._ask(pid)
            if role is not None:
                self._known[pid] = role
        return role or OTHERS

    def keep(self, pids: Collection[int]) -> None:
        """Forgets all processes but these."""
        self._known = {pid: role for pid, role in self._known.items() if pid in pids}

    def _ask(self, pid: int) -> str | None:
        if pid == 0:
            return KERNEL  # an idle CPU, in an interrupt
        process = read_process(pid, self._target.proc)
        if process is None:
            return GONE
        if process.kernel:
            return KERNEL
        if pid == self._target.postmaster:
            return POSTMASTER
        if process.parent != self._target.postmaster:
            return OTHERS
        try:
            return role_of(title_of(pid, self._target.proc), self._cluster_name)
        except OSError:
            return GONE


def volume_under(directory: Path, sys: Path = Path("/sys")) -> tuple[int, bool]:
    """The kernel's number of the disk or volume under the directory (requests belong to disks, not to partitions), and
    whether it makes no requests of its own."""
    device = device_under(directory, sys)
    if device is None:
        raise UnavailableError("the data directory's filesystem has no block device of its own")
    major, minor = (int(part) for part in (device / "dev").read_text().split(":"))
    return kernel_number(major, minor), not (device / "mq").exists()


INSTRUMENT = DeviceRequests()
