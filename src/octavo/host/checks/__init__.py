"""What on this host would disturb a measurement, and what to do about it. Reads only.

A new check is a function here or in a file beside, and a line in the table.
"""

from pathlib import Path

from octavo.host.checks import activity, cpu, memory, storage
from octavo.host.checks.base import Check, CheckFinding, CheckImpossibleError, HostCounters, observe_host

CHECKS: dict[str, Check] = {
    "processes": activity.processes,
    "CPU steal": activity.steal,
    "other PostgreSQL servers": activity.servers,
    "device traffic": activity.device,
    "CPU governor": cpu.governor,
    "turbo": cpu.turbo,
    "SMT": cpu.smt,
    "CPU throttling": cpu.throttling,
    "autogroup scheduling": cpu.autogroup,
    "NUMA balancing": cpu.numa_balancing,
    "virtualization": cpu.virtualization,
    "swap": memory.swap,
    "transparent huge pages": memory.huge_pages,
    "cold pages": memory.cold_pages,
    "free memory": memory.free_memory,
    "disk space": storage.free_space,
    "power": storage.power,
}


def check_host(
    directory: Path,
    seconds: float = 1.0,
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    since: HostCounters | None = None,
) -> list[CheckFinding]:
    """The findings of each check, in the table's order. Activity is observed for `seconds`, or since an earlier reading
    (`counters_now`), which avoids waiting.

    `directory` is the existing directory of the data.
    """
    host = observe_host(directory, seconds, proc, sys, since)
    found: list[CheckFinding] = []
    for name, check in CHECKS.items():
        try:
            found.append(check(host))
        except (CheckImpossibleError, OSError, ValueError) as error:
            found.append(CheckFinding(name, "unknown", str(error)))
    return found


def disturbing(found: list[CheckFinding]) -> list[CheckFinding]:
    """Those of them that disturb."""
    return [one for one in found if one.severity == "disturbs"]
