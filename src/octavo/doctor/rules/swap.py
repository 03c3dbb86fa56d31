"""The server's memory in swap."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import on_the_host
from octavo.units import human_size

_BUSY = 20.0  # pages a second
_MUCH = 64 * 1024**2
_ROOM = 2
_LOW = 1
_FILE = "/etc/sysctl.d/60-postgresql-swap.conf"
# VmSwap, from which the fact comes, has no shared memory (proc_pid_status(5)).
_PRIVATE = "of the server's private memory"


def _judge(asked: RuleFacts) -> Ok | Finding:
    total = asked.whole("host.swap.total_bytes")
    if total == 0:
        return Ok("no swap")
    swapped = asked.whole_or_none("host.process.swap_bytes")
    rate = asked.number_or_none("live.swapped_pages_per_second") or 0.0
    swappiness = asked.whole_or_none("host.swap.swappiness")
    if rate < _BUSY and (swapped or 0) < _MUCH:
        return Ok(f"{human_size(swapped or 0)} {_PRIVATE} are in swap{_of_all(asked, total)}, {rate:.0f} pages/s move")
    page = asked.whole("host.memory.page_bytes")
    tends = f", swappiness is {swappiness}" if swappiness is not None else ""
    return Finding(
        "warning" if rate >= _BUSY else "note",
        f"{human_size(swapped or 0)} {_PRIVATE} are in swap{_of_all(asked, total)}{tends}",
        f"{human_size(rate * page)}/s move between memory and swap now; what is swapped out is read back a page at a "
        "time, when a query needs it",
        (*on_the_host(asked), *_read_back(asked, total), *_less_swapping(swappiness)),
        "now",
        "grep ^pswp /proc/vmstat",
    )


def _of_all(asked: RuleFacts, total: int) -> str:
    """All memory in swap, which may include shared_buffers: the kernel does not count these by process."""
    free = asked.whole_or_none("host.swap.free_bytes")
    return f", of {human_size(total - free)} of all processes and shared memory" if free is not None else ""


def _read_back(asked: RuleFacts, total: int) -> tuple[str, ...]:
    """swapoff needs memory for everything in swap, of every process; without it the OOM killer is invoked."""
    free, available = (asked.whole_or_none(f"host.{name}") for name in ("swap.free_bytes", "memory.available_bytes"))
    if free is None or available is None or available < _ROOM * (total - free):
        return ("# first reduce memory use (shared_buffers, work_mem, connections): swapoff has no room",)
    return (
        f"# {human_size(total - free)} in swap, {human_size(available)} of memory available:",
        "swapoff -a && swapon -a",
        "# swapon -a starts what is in /etc/fstab; start others again (zram, units of systemd): swapon --show before",
    )


def _less_swapping(swappiness: int | None) -> tuple[str, ...]:
    """Not where it is as low, or 0, which 1 would raise."""
    if swappiness is not None and swappiness <= _LOW:
        return ()
    return (f"echo 'vm.swappiness = {_LOW}' > {_FILE} && sysctl -p {_FILE}",)


RULE = DoctorRule(
    "swap",
    "Is the server's memory in swap?",
    "20 pages a second or more move between memory and swap, or 64 MB or more of the server's private memory are "
    "swapped out (a note)",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021): swapping began where page tables "
    "had grown; huge pages are never swapped; proc_pid_status(5), VmSwap; swapon(8)",
    _judge,
)
