"""The facts about a server and its workload that a trace contains, and whether they suffice for a prediction."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import HostError, UsageError
from octavo.predict.counts import Points, of_so_many
from octavo.predict.progress import FEWEST_COMMITS, between, is_by_stretch
from octavo.predict.wal import logged_bytes
from octavo.text import one_line
from octavo.trace.core_types import Relation, Summary
from octavo.trace.files import MOST_LOST, Observe, ignore_progress, lost_share, require_accesses, summarize
from octavo.trace.plausible import plausible
from octavo.trace.simulate import recorded_seconds
from octavo.trace.surface import server_buffers
from octavo.trace.wal import Written, commits, is_commit, until, written
from octavo.units import parse_duration

# With fewer transactions than this the trace is refused.
FEWEST_TRANSACTIONS = 500
# pg_control_checkpoint has whole seconds: a checkpoint reported as s seconds ago was between s - 1 and s seconds ago.
_SECOND = 0.5
# The most characters quoted of a text from the trace.
_LONGEST = 20
MOST_ELSEWHERE = 0.05
"""If a larger part of the accesses is to other databases than the recorder's, the size of all data is unknown."""


@dataclass(frozen=True, slots=True)
class Before:
    """The server's work from the begin of its last checkpoint to the begin of the trace. None: not in the trace."""

    wal_bytes: float
    transactions: float | None = None
    doubt: float = 0.0
    """The relative error of the number of transactions."""
    is_counted: bool = False
    """Whether they were counted by their commits; otherwise they follow from the time, at the trace's transactions per
    second."""
    image_bytes: float | None = None
    images: float | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded server. Sizes are bytes, times seconds. None: not in the trace. `…_each` is per transaction."""

    path: Path
    summary: Summary
    data_block: int
    seconds: float
    transactions: float
    overall_tps: float
    """Transactions per second of the whole time: of a recording in slices with the pauses between them, in which no
    probes slow the server down."""
    shared_buffers: int | None
    wal_block: int
    clients: int | None
    processors: int | None
    cpu_each: float | None
    host_busy_share: float | None
    memory: int | None
    wal_bytes_each: float | None
    wal_records_each: float | None
    images_each: float | None
    image_bytes: float | None
    commits_a_sync: float | None
    reads_each: float | None
    before: Before | None = None
    commits: tuple[tuple[float, float], ...] = ()
    """Microseconds of the trace's clock and the commits in its WAL until then; empty where they are unknown."""
    updates: tuple[Points, Points] = ((), ())
    """Transactions since the trace's beginning, pauses included, and the updates until then: those that were not HOT,
    and those that were in space that pruning had freed. Empty where they are unknown."""

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints that begin in the trace."""
        return self.summary["events"].get("checkpoint_start", (0, 0))[0]

    @property
    def tps(self) -> float:
        """Transactions per second during the recording, without the pauses between slices."""
        return self.transactions / self.seconds

    @property
    def has_changes(self) -> bool:
        """Whether the trace has changes of pages."""
        return self.summary["changes"] + self.summary["full_page_images"] > 0

    @property
    def writes_wal(self) -> bool | None:
        """Whether transactions write WAL. A server that only reads still logs a little."""
        return None if self.wal_bytes_each is None else self.wal_bytes_each > 16

    @property
    def logs_images(self) -> bool:
        """Whether changes log full-page images (full_page_writes)."""
        return self.setting("full_page_writes") != "off"

    @property
    def has_commits_by_time(self) -> bool:
        """Whether the trace has the number of commits by time."""
        return is_by_stretch(self.commits)

    def updates_each(self, transactions: float) -> list[float] | None:
        """The `updates` of a transaction, among the first so many; None where they are unknown."""
        found = [of_so_many(((0.0, 0.0), *points), transactions) for points in self.updates]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else None

    @property
    def relations(self) -> list[Relation]:
        """The relations that were accessed."""
        accessed = {tuple(stream[:3]) for stream in self.summary["streams"]}
        return [
            one
            for one in self.summary["relations"]
            if (one["tablespace"], one["database"], one["relation"]) in accessed
        ]

    @property
    def elsewhere(self) -> float:
        """The part of the accesses to databases of which the trace has no relations: it has those of one database, and
        the shared ones."""
        known = {one["database"] for one in self.summary["relations"]}
        counts = [(database in known, count) for _, database, _, _, count in self.summary["streams"]]
        return sum(count for is_known, count in counts if not is_known) / max(1, sum(count for _, count in counts))

    def setting(self, name: str) -> str | None:
        """A setting as the server reported it, or None."""
        return self.summary["settings"].get(name)


def recorded(path: Path, observe: Observe = ignore_progress) -> Recorded:
    """Reads the trace's facts. Raises HostError when it contains too little for a prediction."""
    try:
        summary = plausible(summarize(path, observe))
    except UsageError as error:
        if "unsupported trace format version" in str(error):
            raise HostError(f"{error}, or record again with this version of Octavo") from error
        raise
    _refuse_damaged(path, summary)
    numbers = {name: value for name, text in summary["properties"].items() if (value := _number(text)) is not None}
    seconds = recorded_seconds(summary)
    counted = numbers.get("work_transactions")
    # Pages of temporary tables are counted with the others, and are in no trace.
    lookups = max(0.0, numbers.get("work_lookups", 0.0) - numbers.get("work_temporary_lookups", 0.0))
    # Backends report their counters up to a second late. Transactions and lookups are equally late, so their ratio is
    # right.
    if counted and lookups:
        transactions = summary["reads"] * counted / lookups
    else:
        transactions = counted or float(summary["events"].get("transactions", (0, 0))[1])
    if not seconds or transactions < FEWEST_TRANSACTIONS:
        raise HostError(
            f"{path} has {transactions:,.0f} transactions; a prediction needs {FEWEST_TRANSACTIONS}: "
            "record for longer, while the server is in use"
        )
    tps = transactions / seconds

    def each(name: str) -> float | None:
        return numbers[name] / counted if counted and name in numbers else None

    # The commits of a stretch include those of its pauses, in which the server is faster than with probes.
    is_in_slices = bool(summary["events"].get("pause_microseconds"))
    overall = tps
    if is_in_slices and counted and numbers.get("work_seconds"):
        overall = counted / numbers["work_seconds"]
    wal, syncs = written(summary), numbers.get("work_wal_syncs")
    wal_block = int(_number(summary["settings"].get("wal_block_size", "")) or 8192)
    logged = wal and max(1.0, overall * wal.seconds)
    cpu, of_cpu = numbers.get("work_cpu_seconds"), numbers.get("work_cpu_transactions")
    if counted and of_cpu == counted and numbers.get("work_seconds"):
        of_cpu = tps * numbers["work_seconds"]
    clients = numbers.get("work_clients")
    return Recorded(
        path=path,
        summary=summary,
        data_block=summary["page_size"],
        seconds=seconds,
        transactions=transactions,
        overall_tps=overall,
        shared_buffers=server_buffers(summary),
        wal_block=wal_block,
        clients=round(clients) if clients else None,
        processors=round(numbers["processors"]) if numbers.get("processors") else None,
        cpu_each=cpu / of_cpu if cpu and of_cpu else None,
        host_busy_share=numbers.get("work_host_busy_share"),
        memory=round(numbers["host_memory_bytes"]) if numbers.get("host_memory_bytes") else None,
        wal_bytes_each=logged_bytes(wal, wal_block) / logged if wal and logged else None,
        wal_records_each=wal.records / logged if wal and logged else None,
        images_each=wal.images / logged if wal and logged else None,
        image_bytes=wal.image_bytes / wal.images if wal and wal.images and wal.image_bytes else None,
        commits_a_sync=counted / syncs if counted and syncs else None,
        reads_each=each("work_reads"),
        before=_before(numbers, wal, overall),
        commits=() if is_in_slices else tuple((float(time), float(count)) for time, count in commits(summary)),
        updates=_updates(summary, logged) if logged else ((), ()),
    )


def _updates(summary: Summary, transactions: float) -> tuple[Points, Points]:
    """By transactions, of so many in the time of the WAL. Too few commits give no rate. A page is pruned before each
    HOT update that needs it, but also by readers (before PostgreSQL 17 VACUUM's records are among these)."""
    times = commits(summary)
    if not times or times[-1][1] < FEWEST_COMMITS:
        return (), ()
    each = transactions / times[-1][1]
    not_hot, hot, pruned = (
        until(summary, lambda kind, kinds=kinds: kind in kinds) or [(0, 0)]
        for kinds in (
            ("Heap/UPDATE", "Heap/UPDATE+INIT"), ("Heap/HOT_UPDATE",), ("Heap2/PRUNE", "Heap2/PRUNE_ON_ACCESS"),
        )
    )  # fmt: skip
    return (
        tuple((count * each, between(not_hot, time)) for time, count in times if count),
        tuple((count * each, min(between(hot, time), between(pruned, time))) for time, count in times if count),
    )


def _before(numbers: dict[str, float], wal: Written | None, tps: float) -> Before | None:
    """Parses the properties `checkpoint_…`. Traces of earlier versions have only the bytes of WAL, or nothing."""
    if "checkpoint_wal_bytes" not in numbers:
        return None
    found = Before(
        numbers["checkpoint_wal_bytes"],
        image_bytes=numbers.get("checkpoint_image_bytes"),
        images=numbers.get("checkpoint_images"),
    )
    committed = sum(kind.records for kind in wal.kinds if is_commit(kind.name)) if wal else 0
    if wal and committed >= FEWEST_COMMITS and "checkpoint_commits" in numbers:
        commits = numbers["checkpoint_commits"]
        return dataclasses.replace(
            found, transactions=commits * tps * wal.seconds / committed,
            doubt=math.hypot(1 / math.sqrt(commits or 1.0), 1 / math.sqrt(committed)), is_counted=True,
        )  # fmt: skip
    seconds = numbers.get("checkpoint_seconds", 0.0) - _SECOND
    if seconds >= 2 * _SECOND:
        return dataclasses.replace(found, transactions=seconds * tps, doubt=_SECOND / seconds)
    return found


def _number(text: str) -> float | None:
    """A finite number that is not negative, or None. The text may be anything."""
    try:
        value = float(text) if len(text) <= 32 else -1.0
    except ValueError:
        return None
    return value if 0 <= value < 1e18 else None


def _refuse_damaged(path: Path, summary: Summary) -> None:
    require_accesses(path, summary)
    if (share := lost_share(summary)) > MOST_LOST:
        raise HostError(
            f"{path} lacks {share:.2%} of its accesses; a prediction needs {MOST_LOST:.1%} or less: record again "
            "with a smaller --max-overhead, or from a tracing build (octavo build --traced)"
        )
    if (relation := summary["properties"].get("cut_relation")) is not None:
        raise HostError(
            f"{path} has only the accesses of the relation {one_line(relation)[:_LONGEST]} (octavo trace cut "
            "--relation); a prediction needs those of all"
        )
    if summary["missing"]["is_cut"]:
        raise HostError(f"{path} is truncated: its end with the server's statistics is missing; record again")


def cycle_of(trace: Recorded, asked: float | None) -> float | None:
    """Seconds of a checkpoint cycle contained in the trace. None where no page is changed, so that nothing depends on
    it.

    Raises HostError when the trace does not contain a whole cycle.
    """
    if not trace.has_changes:
        return None
    if asked is not None:
        if asked > trace.seconds * 1.02:
            raise HostError(
                f"{trace.path} is {trace.seconds:.0f} s long, shorter than a checkpoint cycle of {asked:.0f} s: "
                "record for longer, or give a shorter --checkpoint"
            )
        return min(asked, trace.seconds)
    if trace.checkpoints >= 2 and trace.seconds >= trace.checkpoints:  # no checkpoint takes less than a second
        return trace.seconds / trace.checkpoints
    timeout = _timeout(trace)
    if timeout is not None and timeout <= trace.seconds:
        return timeout
    shown = "" if timeout is None else f" of {timeout:.0f} s (checkpoint_timeout)"
    raise HostError(
        f"{trace.path} has no whole checkpoint cycle{shown} in its {trace.seconds:.0f} s, so full-page images and "
        "checkpoint writes cannot be predicted; record for longer, or give octavo predict the length of a cycle: "
        "--checkpoint 30s"
    )


def _timeout(trace: Recorded) -> float | None:
    text = trace.setting("checkpoint_timeout")
    try:
        return parse_duration(text) if text else None
    except UsageError:
        return None
