"""Turns over pieces, whole and in slices: order, the cost of a disturbed turn, a timeout, and a cell that fails."""

import math
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
from octavo.workloads.base import BegunPiece, Piece, PieceRun, WorkloadResult

ITEMS = {"q1": 2, "q2": 1, "q3": 1}
NAMES = [("q1", 1), ("q1", 2), ("q2", 1), ("q3", 1)]
LIMITS = DisturbanceLimits(0.02, 0.05, 0.0)
NOBODY = CpuSnapshot(CpuTimes(0, 0, 0, 0, 0, 0, 0, 0), {})


@dataclass
class World:
    """The time, and a record of events."""

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
    """Takes the given seconds for a piece, and one more to prepare it; fails at some."""

    world: World
    name: str
    seconds: float
    fails_at: Sequence[Piece] = ()
    error: Exception = field(default_factory=lambda: OctavoError("wrong result"))
    timeout: float = math.inf
    freezing: float = 0.0
    min_time: float = 0.0
    can_repeat: bool = True
    how: str = "nothing"
    kept: list[Piece] = field(default_factory=list[Piece])
    found: list[float] = field(default_factory=list[float])
    left: float = 0.0
    cancelled: bool = False

    @property
    def items(self) -> list[str]:
        return list(ITEMS)

    def enough(self, item: str) -> bool:
        mine = [one for one in self.kept if one[0] == item]
        return len(mine) >= ITEMS[item] and len(mine) * self.seconds >= self.min_time

    def freeze(self) -> None:
        self.world.time += self.freezing
        self.world.log.append(f"freeze {self.name}")

    def thaw(self) -> None:
        self.world.log.append(f"thaw {self.name}")

    def begin(self, piece: Piece) -> BegunPiece:
        self.world.time += 1
        self.world.log.append(f"{self.name} {piece[0]}.{piece[1]}")

        def end(seconds: float) -> PieceRun:
            if piece in self.fails_at:
                raise self.error
            self.found.append(seconds)
            return PieceRun(seconds, lambda: self.kept.append(piece))

        return BegunPiece(self, self.timeout, end)

    def go(self) -> None:
        self.left, self.cancelled = self.seconds, False
        self.world.log.append(f"{self.name} begins")

    def wait(self, seconds: float) -> bool:
        if self.cancelled:
            return True
        ran = min(seconds, self.left)
        self.world.time += ran
        self.left -= ran
        self.world.log.append(f"{self.name} runs {ran:g}")
        return self.left == 0

    def cancel(self) -> None:
        self.cancelled = True

    def result(self) -> WorkloadResult:
        raise NotImplementedError


def turn_all(
    world: World, cells: Sequence[Cell], slice_seconds: float | None = None
) -> tuple[PieceTurns, list[PieceRunner]]:
    runners = [PieceRunner(cell, cell) for cell in cells]
    turns = run(
        runners, list(ITEMS), orders_of(len(cells), "seed"), slice_seconds, LIMITS, world, world, lambda _: None
    )
    return turns, runners


def repeated(seconds: list[float]) -> dict[str, list[list[float]]]:
    """The same seconds for every item and repetition."""
    return {item: [seconds] * times for item, times in ITEMS.items()}


def test_each_piece_is_a_turn_in_which_every_cell_runs_alone() -> None:
    world = World()
    cells = [Cell(world, name, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    turns, runners = turn_all(world, cells)
    assert turns.seconds == repeated([1.0, 2.0, 3.0])
    assert turns.totals() == [3.0, 6.0, 9.0]
    assert all(cell.kept == NAMES for cell in cells)
    assert (turns.kept, len(turns.slices), [runner.ran for runner in runners]) == (4, 4, [8.0, 12.0, 16.0])
    assert_one_runs_at_a_time(world)
    whole = [line for line in world.log if " runs " in line]
    assert sorted(whole[:3]) == ["a runs 1", "b runs 2", "c runs 3"]
    firsts = [whole[3 * turn][0] for turn in range(len(NAMES))]
    assert len(set(firsts)) > 1


@pytest.mark.parametrize("slice_seconds", [None, 1.0])
def test_all_cells_repeat_a_short_piece_until_half_of_them_have_had_the_time(slice_seconds: float | None) -> None:
    """The fastest cell alone would have required ten runs of all cells."""
    world = World()
    cells = [Cell(world, name, seconds, min_time=2.5) for name, seconds in (("a", 0.25), ("b", 1.0), ("c", 2.0))]
    turns, _ = turn_all(world, cells, slice_seconds)
    three = [(item, repetition) for item in ITEMS for repetition in (1, 2, 3)]
    assert all(cell.kept == three for cell in cells)
    assert (turns.kept, turns.items) == (9, 3)


def test_a_cell_that_is_out_is_not_waited_for_by_those_that_have_enough() -> None:
    world = World()
    cells = [Cell(world, "a", 1.0), Cell(world, "b", 1.0, fails_at=[("q1", 1)])]
    turns, _ = turn_all(world, cells)
    assert cells[0].kept == NAMES
    assert turns.items == 3


def assert_one_runs_at_a_time(world: World) -> None:
    running: str | None = None
    for line in world.log:
        match line.split():
            case ["thaw", name]:
                assert running is None
                running = name
            case ["freeze", name]:
                assert running == name
                running = None
            case [name, *_]:
                assert running == name
            case _:
                raise AssertionError(line)


def test_in_slices_all_cells_are_in_the_middle_of_a_piece_at_once() -> None:
    world = World()
    cells = [Cell(world, name, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 0.75))]
    turns, runners = turn_all(world, cells, slice_seconds=0.5)
    assert turns.seconds == repeated([1.0, 2.0, 0.75])
    assert all(cell.kept == NAMES for cell in cells)
    assert [cell.found for cell in cells] == [[1.0] * 4, [2.0] * 4, [0.75] * 4]
    assert turns.facts()["slice_seconds"] == 0.5
    assert [runner.ran for runner in runners] == [8.0, 12.0, 7.0]  # including preparation
    assert_one_runs_at_a_time(world)
    first = world.log[: world.log.index("a q1.2")]
    ran = [line for line in first if " runs " in line]
    assert sorted(ran[:3]) == ["a runs 0.5", "b runs 0.5", "c runs 0.5"]
    assert sorted(ran[3:6]) == ["a runs 0.5", "b runs 0.5", "c runs 0.25"]
    assert ran[6:] == ["b runs 0.5", "b runs 0.5"]
    assert max(first.index(f"{name} q1.1") for name in "abc") < min(first.index(f"{name} begins") for name in "abc")


def test_a_slice_lasts_until_the_cell_stands_still_and_the_last_one_until_the_piece_has_ended() -> None:
    world = World()
    cells = [Cell(world, "a", 1.0, freezing=0.25), Cell(world, "b", 0.5, freezing=0.25)]
    turns, _ = turn_all(world, cells, slice_seconds=0.5)
    assert turns.seconds == repeated([1.25, 0.5])


def test_what_others_take_from_one_cell_over_all_its_slices_disturbs_a_turn() -> None:
    one_slice = World(steal={2: 0.5})  # one of the six of the first turn
    cells = [Cell(one_slice, "a", 3.0), Cell(one_slice, "b", 3.0)]
    turns, _ = turn_all(one_slice, cells, slice_seconds=1.0)
    assert (len(turns.slices), turns.kept, turns.disturbances[0]) == (5, 4, pytest.approx(0.5 / 3 / 0.02))
    every = World(steal=dict.fromkeys(range(1000), 0.5))
    turns, _ = turn_all(every, [Cell(every, "a", 3.0), Cell(every, "b", 3.0)], slice_seconds=1.0)
    assert (len(turns.slices), turns.kept, turns.disturbances[0]) == (4, 4, pytest.approx(0))


@pytest.mark.parametrize("slice_seconds", [None, 1.0])
def test_a_piece_is_cancelled_after_so_much_time_of_its_own(slice_seconds: float | None) -> None:
    world = World()
    cells = [Cell(world, "a", 1.0), Cell(world, "b", 60.0, timeout=2.5)]
    turns, _ = turn_all(world, cells, slice_seconds)
    assert [cell.found for cell in cells] == [[1.0] * 4, [2.5] * 4]
    assert turns.kept == 4
    assert cells[1].cancelled


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


def test_a_piece_that_cannot_be_repeated_counts_although_it_was_disturbed() -> None:
    world = World(steal=dict.fromkeys(range(3, 1000, 3), 0.5))
    cells = [Cell(world, "a", 1.0, can_repeat=False), Cell(world, "b", 2.0, can_repeat=False)]
    turns, _ = turn_all(world, cells)
    assert (len(turns.slices), turns.kept) == (4, 4)
    assert turns.facts()["turns_disturbed"] == 4
    assert all(cell.kept == NAMES for cell in cells)


@pytest.mark.parametrize("slice_seconds", [None, 0.5])
@pytest.mark.parametrize(
    ("error", "reason"), [(OctavoError("wrong result"), "wrong result"), (KeyError("q1"), "KeyError: 'q1' (")]
)
def test_a_cell_that_fails_is_out_and_the_others_go_on(
    slice_seconds: float | None, error: Exception, reason: str
) -> None:
    world = World()
    cells = [Cell(world, "a", 1.0), Cell(world, "b", 2.0, fails_at=[("q1", 2)], error=error)]
    turns, runners = turn_all(world, cells, slice_seconds)
    assert runners[0].error is None
    assert str(runners[1].error).startswith(reason)
    assert (cells[0].kept, cells[1].kept) == (NAMES, NAMES[:1])
    assert turns.seconds == {"q1": [[1.0, 2.0]]}
    assert world.log[-1] == "freeze a"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("", None),
        ('cache = "cold"', None),
        ("slice", None),
        ('slice cache = "cold"', "one whole query"),
        ('phase = "load"', None),
        ('phase = "load"\ncache = "cold"', "a warm cache"),
        ('phase = "load"\ndevice = "loop"', "the machine's own device"),
        ('wal_regime = "steady"', "steady"),
    ],
)
def test_where_queries_may_take_turns(change: str, reason: str | None) -> None:
    slice_length = 'slice = "250ms"' if "slice" in change else ""
    change = change.removeprefix("slice").strip()
    text = f"""
name = "olap"
question = "?"
workload = "tpch"
{slice_length}
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
