"""The work of a server while it was recorded: transactions, CPU, flushes. These are properties `work_…` of a trace, for
octavo predict.

`work_seconds` is the duration of counting. CPU time is that of the postmaster and all its children (proc_pid_stat(5)).
WAL syncs are those of pg_stat_wal and pg_stat_io; the other WAL figures are in the trace's WAL entries.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo import _core
from octavo.host.process_table import growth, read_table, tree
from octavo.instruments.cpus import parse as parse_cpus

_QUERIES = {"recorded_work": 140000, "wal_counters": 140000, "recorded_temporary": 160000}


@dataclass(frozen=True, slots=True)
class WorkCounters:
    """Counters of a server, at a time in seconds of the monotonic clock."""

    at: float
    counters: dict[str, float]
    processes: dict[int, Any]
    busy: float
    """CPU seconds used on the whole host, and the CPU seconds available."""
    possible: float


def work_of(query: Callable[[str], list[dict[str, Any]]], version: int, proc: Path = Path("/proc")) -> WorkCounters:
    """The present counters, without those that this version or user lacks."""
    counters: dict[str, float] = {}
    for name in (name for name, since in _QUERIES.items() if version >= since):
        (row,) = query(name)
        for key, value in row.items():
            if value is not None:
                counters[f"wal_{key}" if name == "wal_counters" else key] = float(value)
    every = parse_cpus((proc / "stat").read_bytes()).values()
    busy, possible = (sum(one[name] for one in every) for name in ("busy", "total"))
    return WorkCounters(time.monotonic(), counters, dict(read_table(proc)), busy, possible)


def cpu_between(before: WorkCounters, after: WorkCounters, postmaster: int) -> float:
    """CPU seconds of the postmaster and its descendants."""
    tables = [
        {pid: work.processes[pid] for pid in tree(postmaster, work.processes) if pid in work.processes}
        for work in (before, after)
    ]
    return sum(growth(tables[0], tables[1], lambda process: process.all_cpu).values())


def active_sessions(before: WorkCounters, after: WorkCounters) -> float:
    """How many sessions were active or in a transaction, on average; 0 where it is not counted."""
    seconds = after.counters.get("session_seconds", 0.0) - before.counters.get("session_seconds", 0.0)
    return max(0.0, seconds) / max(1e-3, after.at - before.at)


def describe(writer: _core.TraceWriter, before: WorkCounters, after: WorkCounters) -> None:
    """Writes the differences, except CPU, which `describe_cpu` writes."""
    differences = {
        name: after.counters[name] - value for name, value in before.counters.items() if name in after.counters
    }
    names = {
        "transactions": "transactions", "session_seconds": "session_seconds", "reads": "reads", "lookups": "lookups",
        "wal_syncs": "wal_syncs", "temporary_lookups": "temporary_lookups",
    }  # fmt: skip
    writer.describe("work_seconds", f"{after.at - before.at:.6f}")
    for counter, name in names.items():
        if counter in differences and differences[counter] >= 0:  # if negative, they were reset meanwhile
            writer.describe(f"work_{name}", f"{differences[counter]:.6g}" if name == "session_seconds"
                            else f"{differences[counter]:.0f}")  # fmt: skip
    if "clients" in after.counters:
        writer.describe("work_clients", f"{max(before.counters['clients'], after.counters['clients']):.0f}")


def describe_cpu(writer: _core.TraceWriter, before: WorkCounters, after: WorkCounters, postmaster: int) -> None:
    """Writes CPU seconds, and the number of transactions that they cover."""
    transactions = after.counters.get("transactions", 0) - before.counters.get("transactions", 0)
    if transactions > 0:
        writer.describe("work_cpu_seconds", f"{cpu_between(before, after, postmaster):.6f}")
        writer.describe("work_cpu_transactions", f"{transactions:.0f}")
        writer.describe("processors", str(os.cpu_count() or 1))
        writer.describe("host_memory_bytes", str(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
        if after.possible > before.possible:
            share = (after.busy - before.busy) / (after.possible - before.possible)
            writer.describe("work_host_busy_share", f"{share:.4f}")
