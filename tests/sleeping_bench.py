"""A bench for fleets that only sleeps: a host's measurements are drawn from the cell, load and seed."""

import math
import os
import random
import time
from collections.abc import Sequence

from octavo.errors import HostError
from octavo.fleet.orders import Ready, RunOrder
from octavo.home import octavo_home
from octavo.host.children import run as run_child
from octavo.host.journal import Journal
from octavo.lab.bench import Measurement
from octavo.lab.events import Notify
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.plan.model import Plan

# While these files are in a host's state directory: its trials fail; trials after this many (the file's text) do not
# end; the trial after this many measures no number.
FAILING, HELD, NO_NUMBER = "failing", "held", "no-number"
# Environment variables of a worker: seconds per trial, and how far its clock is ahead.
SECONDS, AHEAD = "TEST_FLEET_SECONDS", "TEST_FLEET_AHEAD"


class SleepingBench:
    """Each trial is a child that sleeps, journaled like every child, and ended with the process that started it."""

    def __init__(self, journal: Journal, seconds: float) -> None:
        self._journal = journal
        self._seconds = seconds
        self._measured = 0

    def cannot_run(self, cell: Cell) -> str | None:
        return None

    def parts(self, cells: Sequence[Cell]) -> list[list[Cell]]:
        return [list(cells)]

    def prepare(self, cells: Sequence[Cell], round_number: int) -> None:
        if (octavo_home() / "full").exists():
            raise HostError("no space left on device")

    def measure(self, cell: Cell, *, load: int, seed: int) -> Measurement:
        run_child(["sleep", str(self._seconds)], self._journal, role="trial")
        number = self._measured
        if number >= _said(HELD):
            until_gone = 'while [ -e "$0" ]; do sleep 0.05; done'
            run_child(["sh", "-c", until_gone, octavo_home() / HELD], self._journal, role="trial")
        self._measured += 1
        if number == _said(NO_NUMBER):
            return Measurement("ok", None, (Observation("tps", math.nan, "1/s"),))
        if (octavo_home() / FAILING).exists():
            return Measurement("failed", "as the test wants it")
        value = random.Random(f"{cell.id}/{load}/{seed}").gauss(1000, 10)
        return Measurement("ok", None, (Observation("tps", value, "1/s"),))

    def takes_turns(self, cells: Sequence[Cell]) -> bool:
        return False

    def measure_by_turns(
        self, cells: Sequence[Cell], loads: Sequence[int], *, round_number: int, seed: int
    ) -> list[Measurement] | None:
        return None


def _said(file: str) -> float:
    """The number of trials in a file, infinity without it."""
    try:
        return int((octavo_home() / file).read_text())
    except FileNotFoundError:
        return math.inf


class Clock:
    """The host's clock, ahead by a number of seconds."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def now(self) -> float:
        return time.time() + self._ahead


def sleeping(order: RunOrder, plan: Plan, journal: Journal, notify: Notify) -> Ready:
    """Makes a host ready that only sleeps."""
    bench = SleepingBench(journal, float(os.environ.get(SECONDS, "0.2")))
    environment = {"host": {"hostname": order.host, "kernel": "test", "cpu": "test"}}
    return Ready(bench, Clock(float(os.environ.get(AHEAD, "0"))), environment, lambda: None)
