"""The server's memory in swap."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import human_size

_BUSY = 20.0  # pages a second
_MUCH = 64 * 1024**2


def _judge(asked: RuleFacts) -> Ok | Finding:
    total = asked.whole("host.swap.total_bytes")
    if total == 0:
        return Ok("no swap")
    swapped = asked.whole_or_none("host.process.swap_bytes")
    rate = asked.number_or_none("live.swapped_pages_per_second") or 0.0
    swappiness = asked.whole_or_none("host.swap.swappiness")
    if rate < _BUSY and (swapped or 0) < _MUCH:
        return Ok(f"{human_size(swapped or 0)} of the server are in swap, {rate:.0f} pages/s move")
    page = asked.whole("host.memory.page_bytes")
    return Finding(
        "warning" if rate >= _BUSY else "note",
        f"{human_size(swapped or 0)} of the server's memory are in swap, swappiness is {swappiness}",
        f"{human_size(rate * page)}/s move between memory and swap now; what is swapped out is read back a page at a "
        "time, when a query needs it",
        ("# where memory is free for what is in swap:", "swapoff -a && swapon -a",
         "echo 'vm.swappiness = 1' > /etc/sysctl.d/60-postgresql-swap.conf && sysctl -p "
         "/etc/sysctl.d/60-postgresql-swap.conf"),
        "now",
        "grep ^pswp /proc/vmstat",
    )  # fmt: skip


RULE = DoctorRule(
    "swap",
    "Is the server's memory in swap?",
    "20 pages a second or more move between memory and swap, or 64 MB or more of the server are swapped out (a note)",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021): swapping began where page tables "
    "had grown; huge pages are never swapped",
    _judge,
)
