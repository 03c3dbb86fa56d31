"""The interface of a workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from octavo.factor import Factor
from octavo.observation import Metric, Observation
from octavo.postgres.cluster import Server

if TYPE_CHECKING:
    from octavo.workload_support import pgbench_turns

Levels = Mapping[str, str]
# The name of a fact of results in slices: the transactions of the client's whole run, by the number that the workload
# counts them by (session, script), if it does.
COUNTED = "transactions_counted"


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """The result of one measured run, times in seconds. A workload leaves out unknown values.

    `seconds_asked` is the requested length of the run; without it the rule `duration` does not apply. `transactions` is
    what the client counted: rates per transaction and the rule `transactions` follow from it. `problems` are the
    client's own complaints, each of which makes the trial invalid; `output` is stored with it; `facts` go to the
    trial's (`plans`: the identity of the plan that each item had).
    """

    observations: tuple[Observation, ...]
    seconds: float
    transactions: int
    seconds_asked: float = 0.0
    client_cpu_seconds: float = 0.0
    problems: tuple[str, ...] = ()
    output: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Workload(Protocol):
    """A workload: prepare once per load, warm and run once per trial."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors that are specific to this workload."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of its observations; verdicts are about the first one."""
        ...

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The levels that the dataset depends on; trials that agree in them share their loads."""
        ...

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Loads the data. Its random part depends only on the load, so it is the same in every cell that has this load.

        Raises OctavoError when it fails.
        """
        ...

    def database_bytes(self, levels: Levels) -> int:
        """The approximate size of the loaded database, for the estimate before it exists. It is more than 0, because
        the catalogs alone are 8 MB."""
        ...

    def seconds_asked(self, levels: Levels) -> float:
        """The requested seconds of a measured run, for the estimate."""
        ...

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Warms up a server with filled caches, unmeasured."""
        ...

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the measurement. Raises OctavoError when there is nothing to measure."""
        ...


@runtime_checkable
class LoadsSlowly(Protocol):
    """A workload that makes its rows one by one, so that a load takes longer than its size suggests."""

    def load_seconds(self, levels: Levels) -> float:
        """The approximate seconds to fill a load, for the estimate before there is one."""
        ...


@runtime_checkable
class FillsAlike(Protocol):
    """A workload that may fill every load with the same files, so that loads differ only in what ANALYZE samples.

    In that case only the first load is filled; the others are copies of it, analysed again.
    """

    def fills_alike(self, levels: Levels) -> bool:
        """Whether it fills all loads alike at these levels."""
        ...


@runtime_checkable
class PinsSettings(Protocol):
    """A workload with server settings of its own, which a plan's settings override."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings by name."""
        ...


@runtime_checkable
class NeedsPrograms(Protocol):
    """A workload that starts programs from separate packages."""

    def programs(self, levels: Levels) -> tuple[str, ...]:
        """The names of the programs, which are also the names of Debian's packages."""
        ...


@runtime_checkable
class RunsInTurns(Protocol):
    """A workload whose client runs until it is stopped, and can be paused and resumed."""

    def client(
        self, server: Server, levels: Levels, seed: int, output: Path
    ) -> AbstractContextManager[pgbench_turns.PausablePgbench]:
        """Yields the running client, which is stopped at the end of the context. All its output goes to the file
        `output`."""
        ...

    def only_reads(self, levels: Levels) -> bool:
        """Whether the client is known to write nothing, so that a paused cell has nothing to write back."""
        ...


Piece = tuple[str, int]
"""An item, such as a query, and its repetition."""


@dataclass(frozen=True, slots=True)
class PieceRun:
    """One run of a piece and its seconds. `keep` makes it the trial's run."""

    seconds: float
    keep: Callable[[], None]


class RunningPiece(Protocol):
    """A piece that runs on a server; the caller can wait for it in steps."""

    def go(self) -> None:
        """Starts the piece. Raises psycopg.Error."""
        ...

    def wait(self, seconds: float) -> bool:
        """Waits at most so many seconds. Returns whether it has ended. Raises psycopg.Error when the server is gone."""
        ...

    def cancel(self) -> None:
        """Asks the server to cancel it, so that it ends soon. Raises psycopg.Error."""
        ...


@dataclass(frozen=True, slots=True)
class BegunPiece:
    """A piece whose run is prepared. `timeout`: the seconds after which it is cancelled. `end` is called with its
    duration in seconds when it has ended; it raises OctavoError or psycopg.Error when the trial has failed."""

    running: RunningPiece
    timeout: float
    end: Callable[[float], PieceRun]


class Pieces(Protocol):
    """A trial that is measured piece by piece, on a server that is paused in between.

    `can_repeat`: whether a disturbed piece can be run again.
    """

    can_repeat: bool

    @property
    def items(self) -> Sequence[str]:
        """The items in their order; the same for all cells of a condition."""
        ...

    def enough(self, item: str) -> bool:
        """Whether an item has been measured for long enough, so that it is not repeated."""
        ...

    def begin(self, piece: Piece) -> BegunPiece:
        """Prepares one run of a piece. Raises OctavoError or psycopg.Error when the trial has failed."""
        ...

    def result(self) -> WorkloadResult:
        """The collected data as the trial's result."""
        ...


@runtime_checkable
class RunsInPieces(Protocol):
    """A workload whose trials can be measured piece by piece, with all cells taking turns at each piece (`interleave =
    "slices"`)."""

    def pieces(self, server: Server, levels: Levels) -> AbstractContextManager[Pieces]:
        """The pieces of a trial, on a warm server."""
        ...

    def why_not_in_pieces(self, levels: Levels) -> str | None:
        """Why these levels cannot be measured piece by piece, or None."""
        ...

    def piece_levels(self, levels: Levels) -> Levels:
        """The levels that define the pieces, their order and their repetitions: cells that take turns have these in
        common."""
        ...

    def only_reads(self, levels: Levels) -> bool:
        """Whether the pieces are known to write nothing."""
        ...


@runtime_checkable
class CountsBySlices(Protocol):
    """A workload that runs in turns and has figures other than transactions per second."""

    def of_slices(self, levels: Levels, result: WorkloadResult, seen: Sequence[Observation]) -> tuple[Observation, ...]:
        """The workload's own figures of a trial in slices: from the transactions in them, and from the instruments'
        figures of the client's whole run. Rates must use the result's `tps`: its `seconds` are whole slices, and the
        first tenth of each slice is not counted."""
        ...


@runtime_checkable
class NeedsOfHost(Protocol):
    """A workload with requirements on the host besides its build and its knobs."""

    def cannot_run(self, levels: Levels) -> str | None:
        """Why these levels cannot be measured on this host, or None."""
        ...


@runtime_checkable
class ChecksData(Protocol):
    """A workload that can check its data after any run."""

    def violations(self, server: Server, levels: Levels) -> tuple[str, ...]:
        """The violated conditions, one line each. Raises OctavoError or psycopg.Error if they cannot be checked."""
        ...


@runtime_checkable
class ComparesResults(Protocol):
    """A workload whose trials must all have the same results, which it stores in their facts."""

    def recall(self, levels: Levels, facts: Mapping[str, Any]) -> None:
        """Records the facts of an earlier trial of the run; later trials must have the same results."""
        ...


@runtime_checkable
class MeasuresBeforehand(Protocol):
    """A workload with something to measure or compute before a trial, such as the planner's costs: on a started server,
    before anything is warmed up or observed, and never at the same time as another cell."""

    def beforehand(self, server: Server, levels: Levels) -> None:
        """Measures it, unless it is known. Raises OctavoError or HostError when it cannot be measured."""
        ...


@runtime_checkable
class MeasuresAfterwards(Protocol):
    """A workload with further measurements after the instruments have stopped, on the same server under the same
    limits, such as the storage's best rate."""

    def afterwards(self, server: Server, levels: Levels, result: WorkloadResult) -> tuple[Observation, ...]:
        """Returns further observations of the trial. Raises OctavoError when they cannot be measured."""
        ...
