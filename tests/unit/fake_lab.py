"""A run of the small plan on a bench and a clock that take no time."""

from collections.abc import Sequence
from pathlib import Path

from octavo.lab.bench import Measurement
from octavo.lab.events import Event
from octavo.lab.execute import RunOutcome, Undecided, execute
from octavo.observation import Observation
from octavo.plan.cells import Cell, make_cells, order_of_round
from octavo.plan.model import Plan
from octavo.plan.parts import parts_of_round
from octavo.store.records import RunRecord, TrialRecord, TrialStatus
from octavo.store.store import Store

SEED = 42


class FakeClock:
    """Advances only when a test or the bench sets it."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


class FakeBench:
    """Takes exactly ten seconds per trial; is interrupted or returns invalid trials as configured."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.measured: list[tuple[str, int]] = []
        self.die_at: int | None = None
        self.invalid: set[int] = set()
        self.failing: set[str] = set()
        self.too_slow: set[str] = set()
        self.refused: dict[str, str] = {}
        self.prepared: list[tuple[int, frozenset[str]]] = []
        self.room = 1000
        self.by_turns = False

    def cannot_run(self, cell: Cell) -> str | None:
        return self.refused.get(cell.id)

    def parts(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        return parts_of_round(cells, dict.fromkeys((cell.dataset for cell in cells), 1), self.room)

    def prepare(self, cells: Sequence[Cell], round_number: int) -> None:
        self.prepared.append((round_number, frozenset(cell.id for cell in cells)))

    def takes_turns(self, cells: Sequence[Cell]) -> bool:
        return self.by_turns

    def measure_by_turns(
        self, cells: Sequence[Cell], loads: Sequence[int], *, round_number: int, seed: int
    ) -> list[Measurement] | None:
        return [self.measure(cell, load=load, seed=seed) for cell, load in zip(cells, loads, strict=True)]

    def measure(self, cell: Cell, *, load: int, seed: int) -> Measurement:
        number = len(self.measured)
        if number == self.die_at:
            self.die_at = None
            raise KeyboardInterrupt
        self.measured.append((cell.id, load))
        self.clock.time += 10
        if cell.condition in self.too_slow:
            return Measurement("invalid", "only 7 transactions, fewer than 100", facts={"rule": "transactions"})
        if cell.id in self.failing:
            return Measurement("failed", "it broke")
        status: TrialStatus = "invalid" if number in self.invalid else "ok"
        return Measurement(status, "doubted" if status == "invalid" else None, (Observation("tps", 100.0, "1/s"),))


class Laboratory:
    """A store with one run of the small plan."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.plan = plan
        self.cells = make_cells(plan)
        self.store = Store.open(path)
        self.clock = FakeClock()
        self.bench = FakeBench(self.clock)
        self.events: list[Event] = []
        self.decided_after: dict[str, int] = {}
        record = RunRecord("run", plan.name, "running", "", SEED, 0.0, None, {}, "", "", {}, {})
        self.store.create_run(record, self.cells)

    def execute(self, *, retry: bool = False, undecided: Undecided | None = None) -> RunOutcome:
        return execute(
            "run", self.plan, self.cells, SEED, self.bench, self.store, self.clock, self.events.append,
            undecided or self.undecided, retry=retry,
        )  # fmt: skip

    def undecided(self, trials: Sequence[TrialRecord]) -> dict[str, float]:
        rounds = max((trial.round for trial in trials), default=0)
        compared = [cell.id for cell in self.cells if not cell.baseline and not cell.control]
        needed = {cell: float(self.decided_after.get(cell, 1000) - rounds) for cell in compared}
        return {cell: more for cell, more in needed.items() if more > 0}

    def trials(self) -> list[TrialRecord]:
        return self.store.trials("run")


def planned(laboratory: Laboratory) -> list[str]:
    """The cells of the whole run in the order that the seed determines."""
    rounds = range(1, laboratory.plan.rounds + 1)
    return [cell.id for number in rounds for cell in order_of_round(laboratory.cells, number, 1, SEED)]
