"""Turns over pieces: order, what a disturbed turn costs, and a cell that fails."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from octavo import workloads
from octavo.errors import OctavoError
from octavo.host.cpu_times import CpuTimes
from octavo.lab.slices import eligibility
from octavo.lab.slices.count import DisturbanceLimits
from octavo.lab.slices.disturbance import CpuSnapshot
from octavo.lab.slices.order import turns as orders_of
from octavo.lab.slices.pieces import PieceRunner, PieceTurns, run
from octavo.plan.cells import make_cells
from octavo.plan.parse import parse_plan
from octavo.workloads.base import Piece, PieceRun, WorkloadResult

NAMES = [("q1", 1), ("q1", 2), ("q2", 1), ("q3", 1)]
LIMITS = DisturbanceLimits(0.02, 0.05, 0.0)
NOBODY = CpuSnapshot(CpuTimes(0, 0, 0, 0, 0, 0, 0, 0), {})


@dataclass
class World:
    """Time, and what happened in it."""

    time: float = 0.0
    log: list[str] = field(default_factory=list[str])
    steal: dict[int, float] = field(default_factory=dict[int, float])
    readings: int = 0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def read(self) -> CpuSnapshot:
        self.readings += 1
        return NOBODY

    def shares(self, before: CpuSnapshot, after: CpuSnapshot) -> tuple[float, float]:
        return self.steal.get(self.readings, 0.0), 0.0


@dataclass
class Cell:
    """Takes so many seconds for a piece; fails at some."""

    world: World
    name: str
    seconds: float
    fails_at: Sequence[Piece] = ()
    how: str = "nothing"
    kept: list[Piece] = field(default_factory=list[Piece])

    @property
    def names(self) -> list[Piece]:
        return NAMES

    def freeze(self) -> None:
        self.world.log.append(f"freeze {self.name}")

    def thaw(self) -> None:
        self.world.log.append(f"thaw {self.name}")

    def run(self, piece: Piece) -> PieceRun:
        self.world.time += self.seconds
        self.world.log.append(f"{self.name} {piece[0]}.{piece[1]}")
        if piece in self.fails_at:
            raise OctavoError(f"{piece[0]}: wrong result")
        return PieceRun(self.seconds, lambda: self.kept.append(piece))

    def result(self) -> WorkloadResult:
        raise NotImplementedError


def turn_all(world: World, cells: Sequence[Cell]) -> tuple[PieceTurns, list[PieceRunner]]:
    runners = [PieceRunner(cell, cell) for cell in cells]
    turns = run(runners, NAMES, orders_of(len(cells), "seed"), LIMITS, world, world, lambda _: None)
    return turns, runners


def test_each_piece_is_a_turn_in_which_every_cell_runs_alone() -> None:
    world = World()
    cells = [Cell(world, name, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    turns, runners = turn_all(world, cells)
    assert turns.seconds == [[1.0, 2.0, 3.0]] * len(NAMES)
    assert all(cell.kept == NAMES for cell in cells)
    assert (turns.kept, len(turns.slices), [runner.ran for runner in runners]) == (4, 4, [4.0, 8.0, 12.0])
    for thaw, ran, freeze in zip(*(world.log[start::3] for start in range(3)), strict=True):
        name = thaw.removeprefix("thaw ")
        assert ran.startswith(f"{name} ") and freeze == f"freeze {name}"
    firsts = [world.log[9 * turn].removeprefix("thaw ") for turn in range(len(NAMES))]
    assert len(set(firsts)) > 1


def test_a_disturbed_turn_is_run_again_for_all_and_the_better_one_counts() -> None:
    world = World(steal={3: 0.5})  # in the second slice of the first turn
    cells = [Cell(world, "a", 1.0), Cell(world, "b", 2.0)]
    turns, _ = turn_all(world, cells)
    assert (len(turns.slices), turns.kept) == (5, 4)
    assert all(cell.kept == NAMES for cell in cells)
    assert turns.facts() == {
        "interleave": "slices", "turns": 5, "turns_dropped": 1, "turns_disturbed": 1, "slice_seconds": 1.5,
        "steal_share": 0.05, "foreign_cpu_share": 0.0,
    }  # fmt: skip


def test_where_others_are_never_quiet_no_more_than_half_as_many_turns_are_added() -> None:
    world = World(steal=dict.fromkeys(range(3, 1000, 3), 0.5))
    cells = [Cell(world, "a", 1.0), Cell(world, "b", 2.0)]
    turns, _ = turn_all(world, cells)
    assert (len(turns.slices), turns.kept, turns.facts()["turns_disturbed"]) == (6, 4, 6)
    assert all(cell.kept == NAMES for cell in cells)


def test_a_cell_that_fails_is_out_and_the_others_go_on() -> None:
    world = World()
    cells = [Cell(world, "a", 1.0), Cell(world, "b", 2.0, fails_at=[("q1", 2)])]
    turns, runners = turn_all(world, cells)
    assert [runner.error for runner in runners] == [None, "q1: wrong result"]
    assert (cells[0].kept, cells[1].kept) == (NAMES, NAMES[:1])
    assert turns.seconds == [[1.0, 2.0]]
    assert world.log[-1] == "freeze a"


@pytest.mark.parametrize(
    ("change", "reason"),
    [("", None), ('cache = "cold"', None), ('phase = "load"', "written back"), ('wal_regime = "steady"', "steady")],
)
def test_where_queries_may_take_turns(change: str, reason: str | None) -> None:
    text = f"""
name = "olap"
question = "?"
workload = "tpch"
[baseline]
data_block = "8kB"
[factors]
data_block = ["8kB", "32kB"]
{change}
[settings]
checkpoint_timeout = "1h"
"""
    plan = parse_plan(text, origin="olap.toml")
    told = eligibility.why_not(plan, workloads.find("tpch"), make_cells(plan))
    assert told is None if reason is None else reason in str(told)
