"""The loop of turns with fake clock, clients and freezers: one cell runs at a time, and turns are dropped for all."""

from collections.abc import Iterator
from itertools import cycle

import pytest

from octavo.host.cpu_times import CpuTimes
from octavo.lab.slices.count import DisturbanceLimits
from octavo.lab.slices.disturbance import CpuSnapshot
from octavo.lab.slices.turns import Pace, Runner, pilot, run, slice_for

LIMITS = DisturbanceLimits(steal=0.02, foreign=0.05, tick_seconds=0.0)
NOTHING = CpuTimes(0, 0, 0, 0, 0, 0, 0, 0)


class Machine:
    """A clock, and the cell that runs at the moment."""

    def __init__(self) -> None:
        self.time = 0.0
        self.running: set[int] = set()
        self.readings = 0
        self.steal: dict[int, float] = {}  # by slice number, counted from 1 over all turns
        self.slice = 0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert len(self.running) == 1
        self.slice += 1
        self.time += seconds

    def read(self) -> CpuSnapshot:
        assert not self.running
        self.readings += 1
        return CpuSnapshot(NOTHING, {0: self.readings})

    def shares(self, before: CpuSnapshot, after: CpuSnapshot) -> tuple[float, float]:
        assert after.foreign[0] - before.foreign[0] == 1, "a slice has its own time only"
        return self.steal.get(self.slice, 0.0), 0.0


class Cell:
    """Freezer and client: a fixed number of transactions per second while it runs; ends after some seconds of it."""

    how = "test"

    def __init__(self, machine: Machine, number: int, rate: float, lives: float = 1e9) -> None:
        self.machine = machine
        self.number = number
        self.rate = rate
        self.lives = lives
        self.thawed_at = 0.0
        self.logged: list[tuple[float, float]] = []

    def thaw(self) -> None:
        self.machine.running.add(self.number)
        self.thawed_at = self.machine.time

    def freeze(self) -> None:
        self.machine.running.discard(self.number)
        seconds = self.machine.time - self.thawed_at
        self.lives -= seconds
        count = round(self.rate * seconds)
        self.logged += [(self.thawed_at + seconds * (one + 0.5) / count, 0.001) for one in range(count)]

    def finished(self) -> list[tuple[float, float]]:
        found, self.logged = self.logged, []
        return found

    def is_alive(self) -> bool:
        return self.lives > 0


def runners(machine: Machine, *rates: float) -> list[Runner]:
    cells = [Cell(machine, number, rate) for number, rate in enumerate(rates)]
    return [Runner(cell, cell) for cell in cells]


def orders() -> Iterator[list[int]]:
    return cycle([[0, 1], [1, 0]])


def test_each_cell_gets_its_seconds_and_runs_alone() -> None:
    machine = Machine()
    cells = runners(machine, 1000, 1200)
    done = run(cells, orders(), Pace(0.1, 2.0, LIMITS), machine, machine, lambda _: None)
    assert len(done.orders) == len(done.kept) == 20
    assert [tally.rate(0) for tally in (cells[0].tally, cells[1].tally)] == [
        pytest.approx(1000, rel=0.03), pytest.approx(1200, rel=0.03),
    ]  # fmt: skip
    assert cells[0].ran == pytest.approx(2.0)
    assert machine.running == set()


def test_a_disturbed_turn_is_made_up_for() -> None:
    machine = Machine()
    machine.steal = {3: 0.5, 8: 0.5}  # the second and the fourth turn
    done = run(runners(machine, 100, 100), orders(), Pace(0.1, 1.0, LIMITS), machine, machine, lambda _: None)
    assert len(done.orders) == 12
    assert done.kept == set(range(12)) - {1, 3}


def test_a_round_that_is_always_disturbed_is_no_longer_and_keeps_all() -> None:
    machine = Machine()
    machine.steal = dict.fromkeys(range(1, 1000, 2), 0.5)
    done = run(runners(machine, 100, 100), orders(), Pace(0.1, 1.0, LIMITS), machine, machine, lambda _: None)
    assert (len(done.orders), done.disturbed) == (10, 10)
    assert done.kept == set(range(10))


def test_what_cannot_be_made_up_for_is_the_least_disturbed() -> None:
    machine = Machine()
    machine.steal = {1: 0.5, 3: 0.5, 5: 0.9, 7: 0.5, 9: 0.5, 21: 0.5}  # turns 0 to 4, then 10
    done = run(runners(machine, 100, 100), orders(), Pace(0.1, 1.0, LIMITS), machine, machine, lambda _: None)
    assert (len(done.orders), done.disturbed) == (11, 6)
    assert done.kept == set(range(11)) - {2}


def test_a_cell_whose_client_has_gone_has_no_more_slices() -> None:
    machine = Machine()
    cells = [Cell(machine, 0, 100), Cell(machine, 1, 100, lives=0.25)]
    both = [Runner(cell, cell) for cell in cells]
    done = run(both, orders(), Pace(0.1, 1.0, LIMITS), machine, machine, lambda _: None)
    assert len(done.orders) == 10
    assert done.orders[-1] in ([0], [1])
    assert (len(both[0].tally.slices), len(both[1].tally.slices)) == (10, 3)


def test_what_happens_is_shown_about_once_a_second() -> None:
    machine = Machine()
    shown: list[float] = []
    run(
        runners(machine, 100, 100), orders(), Pace(0.125, 2.0, LIMITS), machine, machine,
        lambda _: shown.append(machine.time),
    )  # fmt: skip
    assert [round(moment) for moment in shown] == [1, 2, 3, 4]


class Buffering(Cell):
    """Writes a block of its log at once, as pgbench does."""

    block = 120

    def finished(self) -> list[tuple[float, float]]:
        if len(self.logged) < self.block:
            return []
        return super().finished()


def test_the_pilot_waits_for_the_first_block_of_a_log() -> None:
    machine = Machine()
    slow = Buffering(machine, 0, 16)
    assert pilot([Runner(slow, slow)], machine) == pytest.approx(16, rel=0.1)
    nothing = Buffering(machine, 0, 1)
    assert pilot([Runner(nothing, nothing)], machine) == 0.0


def test_a_client_that_has_gone_makes_no_slice_longer() -> None:
    machine = Machine()
    cells = [Cell(machine, 0, 2000), Cell(machine, 1, 2000, lives=0.1)]
    assert pilot([Runner(cell, cell) for cell in cells], machine) == pytest.approx(2000)
    gone = Cell(machine, 0, 2000, lives=0.0)
    assert slice_for(pilot([Runner(gone, gone)], machine)) == 0.05


def test_the_pilot_finds_the_slowest_and_counts_for_nothing() -> None:
    machine = Machine()
    cells = runners(machine, 2000, 40)
    assert pilot(cells, machine) == pytest.approx(40)
    assert [cell.tally.counts for cell in cells] == [[], []]
    assert cells[0].ran == 0.5
    assert cells[1].ran == 5.0
    assert slice_for(40.0) == 0.5
