"""The server's processes in /proc: page tables, swap, OOM scores. It never reads smaps.

Sources: proc_pid_status(5), proc_pid_oom_score_adj(5), proc_pid_limits(5), cgroup-v2.rst and cgroup-v1/memory.rst,
sched_setaffinity(2) and cpuset(7).
"""

import os
from pathlib import Path
from statistics import median

from octavo.doctor.facts import Fact
from octavo.host.cgroup import charges_huge_pages
from octavo.host.kernel_text import lines, words
from octavo.host.process_table import child_pids, read_process
from octavo.host.procfs import number_after
from octavo.hugepages.groups import NO_LIMIT, group_directories

_KB = 1024


def process_facts(postmaster: int, proc: Path = Path("/proc")) -> list[Fact]:
    """The sums over the postmaster and all its children, and what the median child holds."""
    tables, swap, huge, count = 0, 0, 0, 0
    inherited, inherited_swap, own = 0, 0, list[int]()
    pids = [postmaster, *child_pids(postmaster, proc)]
    for pid in pids:
        try:
            status = (proc / str(pid) / "status").read_bytes()
        except OSError:
            continue
        count += 1
        tables += number_after(status, b"\nVmPTE:") * _KB
        huge = max(huge, number_after(status, b"\nHugetlbPages:") * _KB)
        swapped = number_after(status, b"\nVmSwap:") * _KB
        # RssAnon counts pages that are shared copy-on-write since the fork in every process. A child shares at most
        # what the postmaster has, in memory or in swap: only what exceeds that is certainly its own.
        anonymous = number_after(status, b"\nRssAnon:") * _KB
        if pid == postmaster:
            inherited, inherited_swap = anonymous + swapped, swapped
            swap += swapped
        else:
            own.append(number_after(status, b"\nVmPTE:") * _KB + max(0, anonymous - inherited))
            swap += max(0, swapped - inherited_swap)  # shared pages are swapped out for all processes at once
    where = f"{proc}/PID/status of {count} processes"
    return [
        Fact("host.process.count", count, where),
        Fact("host.process.page_tables_bytes", tables, f"{where}: VmPTE"),
        Fact("host.process.huge_bytes", huge, f"{where}: HugetlbPages, the largest"),
        Fact("host.process.swap_bytes", swap, f"{where}: VmSwap, of children beyond the postmaster's"),
        _median_own(own, proc),
        *_oom(postmaster, pids[1:], proc),
        _first_to_die(postmaster, pids, proc),
        oom_group(postmaster, proc),
        _memlock(postmaster, proc),
        limit := memory_limit(postmaster, proc),
        counts_huge_pages(limit, proc),
        cpu_limit(postmaster, proc),
        allowed_cpus(postmaster),
    ]


def _median_own(own: list[int], proc: Path) -> Fact:
    """The memory that half of the children have at least, each for itself."""
    name = "host.process.median_own_bytes"
    if not own:
        return Fact(name, unknown="no child of the postmaster could be read")
    where = f"{proc}/PID/status of {len(own)} children: VmPTE, and RssAnon beyond the postmaster's; median"
    return Fact(name, round(median(own)), where)


def memory_limit(pid: int | None, proc: Path = Path("/proc")) -> Fact:
    """The tightest memory limit of the process's control groups visible from here; null when there is none."""
    name, limits = "host.memory.group_limit_bytes", list[tuple[int, str]]()
    for group in group_directories("memory", pid, proc):
        for file in (group / "memory.max", group / "memory.limit_in_bytes"):
            try:
                text = file.read_text().strip()
            except OSError:
                continue
            if text.isdecimal() and int(text) < NO_LIMIT:
                limits.append((int(text), str(file)))
    if not limits:
        return Fact(name, None, f"{proc}/{pid or 'self'}/cgroup: no limit")
    return Fact(name, *min(limits))


def counts_huge_pages(limit: Fact, proc: Path = Path("/proc")) -> Fact:
    """Whether huge pages are charged to this memory limit (`memory_limit`): on version 2 if it was mounted so."""
    name, table = "host.memory.group_counts_huge_pages", proc / "self/mountinfo"
    if limit.value is None:
        return Fact(name, absent="there is no memory limit")
    try:
        return Fact(name, charges_huge_pages(Path(limit.source), table), f"{table}: memory_hugetlb_accounting")
    except OSError as error:
        return Fact(name, unknown=f"{table}: {error.strerror}")


def cpu_limit(pid: int | None, proc: Path = Path("/proc")) -> Fact:
    """The CPUs that the process's control groups may use at once, rounded up; null when there is no limit.

    cpu.max has the microseconds and their period; version 1 has a file for each.
    """
    name, limits = "host.cpu.group_cores", list[tuple[int, str]]()
    for group in group_directories("cpu", pid, proc):
        for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            try:
                quota, period = (int(one) for file in files for one in (group / file).read_text().split())
            except (OSError, ValueError):  # "max" is not a number
                continue
            if quota > 0 and period > 0:
                limits.append((-(-quota // period), str(group / files[0])))
    if not limits:
        return Fact(name, None, f"{proc}/{pid or 'self'}/cgroup: no limit")
    return Fact(name, *min(limits))


def allowed_cpus(pid: int) -> Fact:
    """The number of online CPUs on which the process may run, by its affinity (taskset) and its cpuset."""
    name = "host.cpu.allowed_cores"
    try:
        return Fact(name, len(os.sched_getaffinity(pid)), f"sched_getaffinity({pid})")
    except OSError as error:
        return Fact(name, unknown=f"sched_getaffinity({pid}): {error.strerror}")


def oom_group(pid: int, proc: Path = Path("/proc")) -> Fact:
    """Whether a control group of the process, or an ancestor, is killed as a whole. Version 1 cannot do this."""
    name, seen = "host.process.oom_group", ""
    for group in group_directories("memory", pid, proc):
        file = group / "memory.oom.group"
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text == "1":
            return Fact(name, True, str(file))
        seen = seen or str(file)
    return Fact(name, False, seen) if seen else Fact(name, absent="there is no memory.oom.group here")


def _oom(postmaster: int, children: list[int], proc: Path) -> list[Fact]:
    def read(pid: int) -> int:
        return int((proc / str(pid) / "oom_score_adj").read_text())

    found: list[Fact] = []
    try:
        found.append(Fact("host.process.postmaster_oom_adj", read(postmaster), f"{proc}/{postmaster}/oom_score_adj"))
    except (OSError, ValueError) as error:
        return [Fact("host.process.postmaster_oom_adj", unknown=str(error))]
    lowest: int | None = None
    for pid in children:
        try:
            one = read(pid)
        except (OSError, ValueError):
            continue
        lowest = one if lowest is None else min(lowest, one)
    if lowest is None:
        return [*found, Fact("host.process.children_oom_adj", unknown="no child of the postmaster could be read")]
    return [*found, Fact("host.process.children_oom_adj", lowest, f"{proc}/PID/oom_score_adj, the lowest")]


def _first_to_die(postmaster: int, server: list[int], proc: Path) -> Fact:
    """The process that the OOM killer would choose now: the one with the largest oom_score (proc_pid_oom_score(5))."""
    name, worst, first = "host.oom.first", 0, 0
    for directory in proc.glob("[0-9]*"):
        try:
            score = int((directory / "oom_score").read_bytes())
        except (OSError, ValueError):
            continue
        if score > worst:
            worst, first = score, int(directory.name)
    try:
        found = read_process(first, proc) if first else None
        own = int((proc / str(postmaster) / "oom_score").read_bytes())
    except (OSError, ValueError):
        found, own = None, 0
    if found is None:
        return Fact(name, unknown=f"{proc}/PID/oom_score cannot be read")
    whose = "postmaster" if first == postmaster else "server" if first in server else "other"
    value = {"name": found.name, "pid": first, "score": worst, "whose": whose, "postmaster_score": own}
    return Fact(name, value, f"{proc}/PID/oom_score, the largest")


def _memlock(postmaster: int, proc: Path) -> Fact:
    name, file = "host.process.memlock_bytes", proc / str(postmaster) / "limits"
    try:
        row = next(line for line in lines(file) if line.startswith("Max locked memory"))
    except (OSError, StopIteration):
        return Fact(name, unknown=f"only the server's user and root may read {file}")
    soft = words(row)[3]
    if soft == "unlimited":
        return Fact(name, None, f"{file}: Max locked memory unlimited")
    return Fact(name, int(soft), f"{file}: Max locked memory")
