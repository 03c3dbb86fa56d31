"""Opens connections until the kernel kills a process: which one, when, and whether recovery loses committed
transactions.

Every connection reads all of the database, which fits shared_buffers, so that it has page tables for all of it; then it
commits entries in a ledger, and stays. The server runs in a memory group of its own (`memory`), so no other process is
killed. With `holds = "hash"` every session keeps a hash table of work_mem × hash_mem_multiplier as well; a `neighbour`
is another program in the group.
"""

import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

import psycopg
from psycopg.rows import DictRow

from octavo.errors import OctavoError, UsageError
from octavo.factor import Factor, one_of, size, whole_number
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.process_roles import CLIENT
from octavo.text import one_line
from octavo.units import human_duration, human_size, parse_size
from octavo.workload_support.server_memory import ProcessMemory, first_victim, largest_by_role, look
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.oom import recovery
from octavo.workloads.oom.holding import hash_memory, hold_hash_table
from octavo.workloads.oom.neighbour import ROLE as NEIGHBOUR
from octavo.workloads.oom.neighbour import Neighbour, neighbour

# A row of the table that connections read, and its size with header and line pointer: small enough for every block
# size, large enough that reading a page is little work.
_FILLING = 840
_ROW = 880
# The commits of each connection, one by one.
_COMMITS = 5
# Pss costs 7 ms a process and GB: it is read with every tenth connection.
_PSS_EVERY = 10
# Shortly before the kill the kernel drops what it can and reads it again; meanwhile the server hardly responds.
_PATIENCE_SECONDS = 180
# For the estimate: the memory of a connection (docs/experiments/page-tables.md: about 1.7 MB with huge pages, 3.8 MB
# with page tables for 1 GB at 4 kB), and how fast it reads from shared_buffers, also if a part of the page tables is in
# compressed swap.
_CONNECTION_BYTES = 3 * 1024**2
_READ_BYTES_PER_SECOND = 5 * 1024**3
_SWAPPED_READ_BYTES_PER_SECOND = 0.75 * 1024**3

_CONNECTIONS = Metric("connections_until_kill", "connections until a process was killed", "1", "higher")
_SECONDS = Metric("seconds_until_kill", "time until a process was killed", "seconds")
_TABLES = Metric("page_tables_at_kill_bytes", "page tables of all processes before the kill (VmPTE)", "bytes", "lower")
_EACH = Metric("page_tables_per_connection_bytes", "page tables before the kill, for each connection", "bytes", "lower")
_PRIVATE = Metric(
    "private_at_kill_bytes",
    "RssAnon of all processes before the kill (what they share since the fork counts in each)",
    "bytes",
)
_HASH = Metric("hash_memory_bytes", "work_mem × hash_mem_multiplier, which each session holds", "bytes")
_EACH_PRIVATE = Metric(
    "private_per_connection_bytes",
    "RssAnon before the kill, for each connection (what processes share since the fork counts in each)",
    "bytes",
)
_KILLED = Metric("killed_weight_bytes", "RSS, swap and page tables of the killed process, before the kill", "bytes")
_HEAVIEST = Metric("heaviest_weight_bytes", "RSS, swap and page tables, largest process before the kill", "bytes")
_PSS = Metric("pss_bytes", "proportional set size, largest process, up to ten connections before the kill", "bytes")
_RECOVERY = Metric("recovery_seconds", "time from the kill to the first answered query", "seconds", "lower")
_ACKNOWLEDGED = Metric("commits_acknowledged", "commits that were acknowledged", "1")
_LOST = Metric("commits_lost", "acknowledged commits that were lost", "1", warns="alarm")
_SURVIVED = Metric(
    "nothing_killed", "nothing was killed, and most_connections is a lower bound", "1",
    warns="limit",
)  # fmt: skip
_METRICS = (
    _CONNECTIONS, _SECONDS, _TABLES, _EACH, _PRIVATE, _EACH_PRIVATE, _HASH, _KILLED, _HEAVIEST, _PSS,
    _RECOVERY, _ACKNOWLEDGED, _LOST, _SURVIVED,
)  # fmt: skip

_KILL = re.compile(r"LOG:  (.+) \(PID (\d{1,9})\) was terminated by signal 9")


@dataclass(slots=True)
class GrowingConnections:
    """The connections so far, the transactions committed on them, and the last reading of all processes."""

    opened: int = 0
    acknowledged: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    processes: list[ProcessMemory] = field(default_factory=list[ProcessMemory])
    pss: dict[str, int] = field(default_factory=dict[str, int])
    hash_memory: int = 0
    error: str = ""


class Oom:
    """Opens connections one after the other until the server loses a process to the OOM killer."""

    factors = (
        Factor("database", "cluster", "approximate size of the tables; should fit in shared_buffers", "128MB",
               size("16MB", "16TB")),
        Factor("holds", "run", "memory held by a session: nothing, or a hash table of work_mem × hash_mem_multiplier",
               "nothing", one_of("nothing", "hash")),
        Factor("neighbour", "run", "memory of another program in the server's memory group", "none",
               size("1MB", "1TB", "none")),
        Factor("most_connections", "run", "connections at which the run ends if nothing is killed", "400",
               whole_number(1, 10_000)),
    )  # fmt: skip
    metrics = _METRICS

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The table and the ledger. Raises UsageError without a memory limit: the kernel would choose any process."""
        if levels["memory"] == "none":
            raise UsageError("memory: required by the workload oom, so that only its own server can be killed")
        return (("workload", "oom"), ("database", levels["database"]))

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Makes a table of that size, with rows in line and not compressed, and an empty ledger."""
        rows = max(1, parse_size(levels["database"]) // _ROW)
        server.execute("CREATE TABLE everything (filling text STORAGE PLAIN)")
        server.execute(f"INSERT INTO everything SELECT repeat('x', {_FILLING}) FROM generate_series(1, {rows})")  # noqa: S608
        server.execute("CREATE TABLE ledger (connection int, entry int, PRIMARY KEY (connection, entry))")

    def database_bytes(self, levels: Levels) -> int:
        """The requested size plus the catalogs."""
        return parse_size(levels["database"]) + 16 * 1024**2

    def seconds_asked(self, levels: Levels) -> float:
        """A guess for the estimate: as many connections as fit the limit and swap, each of which reads everything."""
        has_swap = levels["zram_swap"] != "none"
        swap = parse_size(levels["zram_swap"]) if has_swap else 0
        room = max(0, parse_size(levels["memory"]) + swap - parse_size(levels["shared_buffers"]) - _neighbour(levels))
        connections = min(int(levels["most_connections"]), room / (_CONNECTION_BYTES + _held(levels)))
        reading = parse_size(levels["database"]) / (
            _SWAPPED_READ_BYTES_PER_SECOND if has_swap else _READ_BYTES_PER_SECOND
        )
        return connections * (0.05 + reading)

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Does nothing: the lab has filled shared_buffers."""

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Connects until a process is killed, and checks the state after recovery.

        A run without a kill, or with a lost commit, is a result. Raises OctavoError if the server refuses connections
        for another reason, or does not recover.
        """
        most = int(levels["most_connections"])
        logged = server.log.stat().st_size
        with neighbour(server, _neighbour(levels)) as other:
            began = time.monotonic()
            crowd = _grow(server, most, holds_hash=levels["holds"] == "hash", other=other)
            seconds = time.monotonic() - began
            other_killed = other is not None and other.killed
        # Check the server first: if it lost a process, that may have been killed before the neighbour.
        who = _killed(server, logged, crowd) if crowd.error else None
        if who is None and other_killed:
            who = next((one for one in crowd.processes if one.role == NEIGHBOUR), ProcessMemory(0, NEIGHBOUR, 0, 0, 0))
        if crowd.error and who is None:
            raise OctavoError(f"after {crowd.opened} connections: {crowd.error}; no process was killed")
        recovered = recovery.ledger_of(server) if who and who.role != NEIGHBOUR else None
        there = recovered.entries if recovered else crowd.acknowledged
        lost = crowd.acknowledged - there
        observations = _observations(crowd, who, len(lost))
        observations.append(observe(_SECONDS, seconds) if who else observe(_SURVIVED, 1))
        if recovered:
            observations.append(observe(_RECOVERY, recovered.seconds))
        return WorkloadResult(
            tuple(observations), seconds, len(crowd.acknowledged), seconds_asked=seconds,
            output=story(crowd, seconds, who, len(lost)),
        )  # fmt: skip


def story(crowd: GrowingConnections, seconds: float, who: ProcessMemory | None, lost: int) -> str:
    """The course of the run, as lines for the trial's log."""
    victim = "nothing" if who is None else f"a {who.role} (PID {who.pid}) of {human_size(who.weight)}"
    lines = [
        f"killed: {victim}, after {crowd.opened} connections and {human_duration(seconds)}",
        f"page tables of all processes before that: {human_size(sum(one.tables for one in crowd.processes))}",
        f"commits acknowledged: {len(crowd.acknowledged)}, lost: {lost}",
    ]
    by_weight = largest_by_role(crowd.processes, "weight")
    lines += [f"RSS, swap and page tables: {role} {human_size(value)}" for role, value in by_weight.items()]
    lines += [f"Pss: {role} {human_size(value)}" for role, value in crowd.pss.items()]
    return "\n".join(lines) + "\n"


def _grow(server: Server, most: int, *, holds_hash: bool, other: Neighbour | None) -> GrowingConnections:
    """Opens one connection after the other, until the server breaks, the neighbour is killed, or there are enough."""
    crowd = GrowingConnections()
    with ExitStack() as stack:
        try:
            for number in range(1, most + 1):
                connection = server.connect(DATABASE, patience=_PATIENCE_SECONDS)
                stack.callback(connection.close)
                _read_everything(connection)
                crowd.opened = number
                for entry in range(_COMMITS):
                    connection.execute("INSERT INTO ledger VALUES (%s, %s)", (number, entry))
                    crowd.acknowledged.add((number, entry))
                if holds_hash:
                    crowd.hash_memory = hash_memory(connection)
                    hold_hash_table(connection)
                if other is not None and other.killed:
                    break
                crowd.processes = (look(server.process.pid) or crowd.processes) + (other.memory() if other else [])
                if number % _PSS_EVERY == 0:
                    crowd.pss = largest_by_role(look(server.process.pid, pss=True), "pss")
        except (psycopg.Error, OctavoError) as error:
            crowd.error = one_line(error)
    return crowd


def _read_everything(connection: psycopg.Connection[DictRow]) -> None:
    """Reads every page of the table in this backend itself. All are in shared_buffers, so none is evicted for it."""
    connection.execute("SET max_parallel_workers_per_gather = 0")
    connection.execute("SELECT count(*) FROM everything")


def _killed(server: Server, logged: int, crowd: GrowingConnections) -> ProcessMemory | None:
    """The process that was killed first, as last observed: from the server's log since then, or because the postmaster
    is gone."""
    known = {one.pid: one for one in crowd.processes}
    for line in recovery.log_lines(server, logged):
        if match := _KILL.search(line):
            pid = int(match[2])
            role = CLIENT if match[1] == "server process" else match[1]  # its name before 18
            return known.get(pid, ProcessMemory(pid, role, 0, 0, 0))
    if not server.is_alive():
        return known.get(server.process.pid)
    return None


def _observations(crowd: GrowingConnections, who: ProcessMemory | None, lost: int) -> list[Observation]:
    own = [one for one in crowd.processes if one.role != NEIGHBOUR]
    tables, private = sum(one.tables for one in own), sum(one.private for one in own)
    found = [
        observe(_CONNECTIONS, crowd.opened),
        observe(_TABLES, tables),
        observe(_EACH, tables / max(1, crowd.opened)),
        observe(_PRIVATE, private),
        observe(_EACH_PRIVATE, private / max(1, crowd.opened)),
        observe(_ACKNOWLEDGED, len(crowd.acknowledged)),
        observe(_LOST, lost),
    ]
    if crowd.hash_memory:
        found.append(observe(_HASH, crowd.hash_memory))
    if who is not None and who.weight:
        found.append(observe(_KILLED, who.weight, item=who.role))
    if (heaviest := first_victim(crowd.processes)) is not None:
        found.append(observe(_HEAVIEST, heaviest.weight, item=heaviest.role))
    return [*found, *(observe(_PSS, value, item=role) for role, value in crowd.pss.items())]


def _neighbour(levels: Levels) -> int:
    """The bytes of the neighbour, 0 for none."""
    return 0 if levels["neighbour"] == "none" else parse_size(levels["neighbour"])


def _held(levels: Levels) -> float:
    """The bytes that each session should hold according to the plan; the server's own settings are not known yet."""
    if levels["holds"] == "nothing":
        return 0.0
    memory = parse_size(levels.get("settings.work_mem", "4MB"))
    return memory * float(levels.get("settings.hash_mem_multiplier", "2"))


WORKLOAD = Oom()
