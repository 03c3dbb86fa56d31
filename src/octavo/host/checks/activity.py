"""Other activity on the host now."""

import os

from octavo.host.checks.base import CheckFinding, CheckImpossibleError, Host
from octavo.host.process_table import Process, tree
from octavo.units import human_size

# Octavo's own defaults for a trial (plan.thresholds): a host that is worse than this now would fail them.
_MOST_CPU = 0.05
_MOST_STEAL = 0.02
_MOST_BYTES_A_SECOND = 4 * 1024**2
# As many culprits are named, from such a share on.
_NAMED = 3
_NAMED_FROM = 0.01


def processes(host: Host) -> CheckFinding:
    """Foreign processes that take CPU time now, those that take most by name."""
    table = host.after.processes
    ours = tree(os.getpid(), table)
    shares = {pid: share for pid, share in host.cpu_shares().items() if pid not in ours and not table[pid].kernel}
    taken = max(0.0, sum(shares.values()))
    load = _load(host)
    if taken <= _MOST_CPU:
        return CheckFinding("processes", "fine", f"others take {taken * 100:.1f} % of the CPU; {load}")
    by_share = sorted(shares, key=shares.__getitem__, reverse=True)
    top = [pid for pid in by_share[:_NAMED] if shares[pid] >= _NAMED_FROM or pid == by_share[0]]
    names = ", ".join(f"{table[pid]} {shares[pid] * 100:.0f} %" for pid in top)
    return CheckFinding(
        "processes",
        "disturbs",
        f"other processes take {taken * 100:.0f} % of the CPU: {names}; {load}",
        "they take CPU time from the server, and more from some cells than from others",
        f"stop them, or wait until they end: ps -fp {','.join(map(str, top))}",
    )


def steal(host: Host) -> CheckFinding:
    """CPU time that the hypervisor gave to somebody else."""
    share = host.cpu.share(host.cpu.steal)
    found = f"{share * 100:.1f} % of the CPU is stolen"
    if share <= _MOST_STEAL:
        return CheckFinding("CPU steal", "fine", found)
    return CheckFinding(
        "CPU steal",
        "disturbs",
        found,
        "other virtual machines on the same hardware slow this one down, unevenly",
        "use a machine with dedicated CPUs, or measure at another time",
    )


def servers(host: Host) -> CheckFinding:
    """Other PostgreSQL servers, by their postmasters."""
    table = host.after.processes
    ours = tree(os.getpid(), table)
    postmasters = [
        process
        for process in table.values()
        if process.is_postgres and process.pid not in ours and not _is_child(process, host)
    ]
    if not postmasters:
        return CheckFinding("other PostgreSQL servers", "fine", "none")
    names = ", ".join(f"pid {process.pid}" for process in postmasters)
    shares = host.cpu_shares()
    share = sum(shares[pid] for process in postmasters for pid in tree(process.pid, table))
    return CheckFinding(
        "other PostgreSQL servers",
        "disturbs" if share > _MOST_CPU else "note",
        f"{len(postmasters)} ({names}), taking {share * 100:.1f} % of the CPU",
        "they share CPU, memory and device, and run checkpoints and autovacuum",
        f"stop them, by their service or with: kill -INT {' '.join(str(process.pid) for process in postmasters)}",
    )


def device(host: Host) -> CheckFinding:
    """Traffic at the device under the data directory while nothing is measured, without what we read ourselves."""
    before, after = host.before.device_bytes, host.after.device_bytes
    if before is None or after is None:
        raise CheckImpossibleError(f"the filesystem of {host.directory} has no block device with counters")
    others = max(0, after - before - (host.after.own_reads - host.before.own_reads))
    rate = others / host.seconds if host.seconds > 0 else 0.0
    found = f"{human_size(rate)} a second at the device of {host.directory}"
    if rate <= _MOST_BYTES_A_SECOND:
        return CheckFinding("device traffic", "fine", found)
    return CheckFinding(
        "device traffic",
        "disturbs",
        found,
        "a trial's reads and syncs queue behind it",
        "find the process: pidstat -d 1; after a large copy run: sync",
    )


def _is_child(process: Process, host: Host) -> bool:
    parent = host.after.processes.get(process.parent)
    return parent is not None and parent.name == process.name


def _load(host: Host) -> str:
    try:
        return f"load average {(host.proc / 'loadavg').read_text().split()[0]}"
    except OSError:
        return "load average unknown"
