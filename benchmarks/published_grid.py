"""A published TPC-H grid, replayed round by round in random orders as if it were measured now.

Six data blocks, seven WAL blocks and three WAL segment sizes: each combination was loaded once and ran the 22 queries
three times. A trial is one run of all queries, its value their seconds: 378 trials. The caches were colder in the first
run after a load. `queries.csv` has no header: data block; WAL block; WAL segment; query; run; start; seconds; …
"""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from octavo.analysis.interim import InterimAnalysis, Question, Role, after_round, begin, single_analysis
from octavo.analysis.layout import Floats, Integers, Layout
from octavo.analysis.variance_components import FEWEST_BETWEEN_LOADS
from octavo.analysis.verdict import judge

THRESHOLD = 0.03
DATA_BLOCKS = (1, 2, 4, 8, 16, 32)
WAL_BLOCKS = (1, 2, 4, 8, 16, 32, 64)
SEGMENTS = (1, 16, 512)
BASE = 8
COLD, WARM = (1,), (2, 3)


@dataclass(frozen=True, slots=True)
class Grid:
    """The seconds of each (data block, WAL block, segment, run)."""

    seconds: dict[tuple[int, int, int, int], float]

    def logarithm(self, *trial: int) -> float:
        """The logarithm of a trial's seconds."""
        return float(np.log(self.seconds[trial[0], trial[1], trial[2], trial[3]]))


@dataclass(frozen=True, slots=True)
class Replayed:
    """Verdicts by row, None if undecided, and the number of trials used."""

    words: dict[int, str | None]
    trials: int
    alarms: int


def read(path: Path) -> Grid:
    """The published numbers, summed over queries."""
    seconds: dict[tuple[int, int, int, int], float] = {}
    with path.open(newline="") as lines:
        for data, wal, _, segment, _, run, _, value, *_ in csv.reader(lines, delimiter=";"):
            trial = int(data), int(wal), int(segment), int(run)
            seconds[trial] = seconds.get(trial, 0.0) + float(value)
    return Grid(seconds)


def replay(path: Path, orders: int, seed: int) -> None:
    """Prints how the verdicts of stopped replays compare with those of the whole grid."""
    if not path.exists():
        print(f"the published grid is not there ({path}): nothing to replay")
        return
    grid = read(path)
    print(f"the published grid, {orders} random orders of rounds; percent of cells, trials as a ratio to the whole")
    print(
        f"{'replayed':34}{'grid':>6}{'used':>8}{'ratio':>7}{'agree':>8}{'contradict':>12}{'undecided':>11}{'alarms':>8}"
        "  verdicts of the whole"
    )
    for name, runs in (("all runs", COLD + WARM), ("first runs, cold", COLD), ("later runs, warm", WARM)):
        for make in (_all_cells, _data_blocks):
            source = np.random.default_rng(seed)
            whole, question = make(grid, runs, source)
            words = _words(single_analysis(whole, _once(question)), question)
            size = 42 * 3 * len(runs)
            found = [_replay(*make(grid, runs, source)) for _ in range(orders)]
            print(_row(f"{make.__doc__}, {name}", size, words, found))


def _row(name: str, size: int, words: dict[int, str | None], found: Sequence[Replayed]) -> str:
    pairs = [(one.words[row], word) for one in found for row, word in words.items()]
    used = float(np.mean([one.trials for one in found]))
    tally = ", ".join(f"{count} {word or 'undecided'}" for word, count in Counter(words.values()).most_common())
    return (
        f"{name:34}{size:6}{used:8.1f}{used / size:7.3f}{_share([one == other for one, other in pairs]):8.2f}"
        f"{_share([one != other and one is not None and other is not None for one, other in pairs]):12.2f}"
        f"{_share([one is None for one, _ in pairs]):11.2f}{_share([one.alarms > 0 for one in found]):8.2f}  {tally}"
    )


def _all_cells(grid: Grid, runs: Sequence[int], source: np.random.Generator) -> tuple[Layout, Question]:
    """42 cells"""
    cells = list(product(DATA_BLOCKS, WAL_BLOCKS))
    rounds = _rounds(list(SEGMENTS), runs, source)
    values = np.array([[grid.logarithm(*cell, segment, run) for segment, run in rounds] for cell in cells])
    loads = np.array([[SEGMENTS.index(segment) + 1 for segment, _ in rounds]] * len(cells))
    baseline = cells.index((BASE, BASE))
    # WAL blocks cannot affect queries.
    roles = [Role.NEGATIVE if data == BASE else Role.COMPARED for data, _ in cells]
    roles[baseline] = Role.BASELINE
    return _made(values, loads, roles, baseline)


def _data_blocks(grid: Grid, runs: Sequence[int], source: np.random.Generator) -> tuple[Layout, Question]:
    """6 data blocks"""
    # WAL geometries cannot affect queries: those of one data block are 21 equal loads. The control, which was not
    # measured, consists of the baseline's loads in the opposite order, as long as the baseline has not used them yet.
    geometries = list(product(WAL_BLOCKS, SEGMENTS))
    rounds = _rounds(list(range(len(geometries))), runs, source)
    values = np.array([[grid.logarithm(data, *geometries[at], run) for at, run in rounds] for data in DATA_BLOCKS])
    baseline = DATA_BLOCKS.index(BASE)
    order = [at for at, _ in rounds[: len(geometries)]]
    opposite = {at: order[-1 - place] for place, at in enumerate(order)}
    again = [
        grid.logarithm(BASE, *geometries[opposite[at]], run) if order.index(at) < len(order) // 2 else np.nan
        for at, run in rounds
    ]
    loads = np.array([[at + 1 for at, _ in rounds]] * len(values) + [[len(order) + 1 + at for at, _ in rounds]])
    roles = [Role.COMPARED] * len(values) + [Role.CONTROL]
    roles[baseline] = Role.BASELINE
    return _made(np.vstack([values, again]), loads, roles, baseline)


def _rounds(loads: list[int], runs: Sequence[int], source: np.random.Generator) -> list[tuple[int, int]]:
    """Rounds cycle through the loads in a random order, and use the runs of each load in a random order."""
    order = _shuffled(loads, source)
    turns = [_shuffled(list(runs), source) for _ in order]
    return [(load, turns[at][turn]) for turn in range(len(runs)) for at, load in enumerate(order)]


def _shuffled(items: list[int], source: np.random.Generator) -> list[int]:
    return [items[int(place)] for place in source.permutation(len(items))]


def _made(values: Floats, loads: Integers, roles: list[Role], baseline: int) -> tuple[Layout, Question]:
    count, rounds = values.shape
    most = len(np.unique(loads[baseline]))
    waits = (count - 1) * (most - 1) >= FEWEST_BETWEEN_LOADS
    question = Question(tuple(roles), THRESHOLD, THRESHOLD / 2, loads=most, waits_for_loads=waits)
    return Layout(values, loads, np.array(range(count)), np.array(range(1, rounds + 1)), baseline), question


def _once(question: Question) -> Question:
    return Question(question.roles, question.threshold, question.precision, once=True)


def _replay(layout: Layout, question: Question) -> Replayed:
    history = begin(question)
    trials = 0
    for number in layout.rounds:
        going_on = len(history.open(question))
        if going_on:
            trials += going_on + len(question.controls) + 1
            history = after_round(history, layout, question, int(number))
    words: dict[int, str | None] = {}
    for at in history.analyses:
        settled = {row for row in question.rows(Role.COMPARED) if history.stopped[row] == at.round}
        words |= {row: word for row, word in _words(at, question).items() if row in settled}
    missing: dict[int, str | None] = dict.fromkeys(history.open(question))
    last = history.analyses[-1]
    outside = np.abs(last.contrasts.centre) > last.half_widths
    return Replayed(words | missing, trials, int(outside[question.controls].sum()))


def _words(at: InterimAnalysis, question: Question) -> dict[int, str | None]:
    judged = judge(at.contrasts.centre, at.half_widths, at.floor(question), question.threshold, question.precision)
    return {
        row: "same"
        if judged.same[row]
        else ("slower" if at.contrasts.centre[row] > 0 else "faster")
        if judged.different[row]
        else None
        for row in question.rows(Role.COMPARED)
    }


def _share(of: Sequence[bool]) -> float:
    return 100 * float(np.mean(of))
