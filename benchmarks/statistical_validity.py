"""Validates the statistics: simulated experiments with a known truth, and a published grid replayed.

    .venv/bin/python benchmarks/statistical_validity.py [--experiments 10000] [--jobs 2] [--seed 1] [--grid DIRECTORY]

Every experiment is stopped by the rule that stops runs (`octavo.analysis.interim`). Percentages are of experiments,
except for `coverage` (of intervals) and `undecided` (of cells):

- coverage, all: intervals at stopping that contain the true effect; experiments in which all of them do.
- wrong: any faster or slower of the wrong sign or where the cells are equal; any same of a difference of interest.
- false: the share of an experiment's verdicts (faster, slower, same) that are wrong, on average.
- alarm: any faster or slower although all cells are equal.
- undecided: cells without a verdict when the rounds were spent; narrow: cells that stopped without one, because their
  interval was narrow enough.
- hindsight: trials relative to those of the smallest full grid (every cell in every round, analysed once) that gives
  the same verdicts, a size that nobody knows beforehand; planned: relative to a full grid of so many rounds that 95 of
  100 experiments give them. Of every tenth experiment, if all of its cells were settled.
"""

import argparse
import functools
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from published_grid import replay
from scipy.signal import lfilter
from statistical_scenarios import Scenario, Slices, scenarios

from octavo.analysis.condition import Condition
from octavo.analysis.contrasts import contrasts
from octavo.analysis.decide import AnalysedCondition, at_confirmed_level
from octavo.analysis.interim import (
    InterimAnalyses,
    InterimAnalysis,
    Question,
    Role,
    after_round,
    analyse,
    begin,
)
from octavo.analysis.layout import Floats, Layout
from octavo.analysis.variance_components import FEWEST_BETWEEN_LOADS
from octavo.analysis.verdict import judge
from octavo.lab.slices.order import turns
from octavo.plan.cells import Cell, order_of_round

THRESHOLD = 0.03
GRID = Path(__file__).parents[2] / "shared" / "data" / "vondra-tpch-i5"
CHUNK = 100


@dataclass(frozen=True, slots=True)
class Experiment:
    """The result of one experiment."""

    covered: int
    intervals: int
    all_covered: bool
    wrong: bool
    false_words: float  # share of its verdicts
    alarm: bool
    undecided: int
    narrow: int
    trials: int
    full_grid: int | None  # trials; None if it was not computed


class Simulated:
    """A condition with a known truth, measured round by round."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario, self.seed = scenario, seed
        self.source = source = np.random.default_rng(seed)
        self.cells = make_cells(scenario.cells)
        count = len(self.cells)
        drawn = source.choice(scenario.effects, count - 2)
        if source.random() < scenario.unaffected:
            drawn[:] = 0
        self.effects = np.log1p(np.concatenate([[0], drawn, [0]]))
        self.loads = np.tile(1 + np.arange(scenario.rounds) % scenario.loads, (count, 1))
        self.loads[-1] += scenario.loads
        self.of_load = source.normal(0, scenario.load, (count, 2 * scenario.loads + 1))
        self.deviations = np.full(count, scenario.residual)
        self.deviations[1] *= scenario.noisy
        self.own = self.effects[:, None] + self.of_load[np.arange(count)[:, None], self.loads]
        question = Question(
            (Role.BASELINE, *[Role.COMPARED] * (count - 2), Role.CONTROL),
            THRESHOLD,
            THRESHOLD / 2,
            scenario.conditions,
            loads=scenario.loads,
            waits_for_loads=(count - 1) * (scenario.loads - 1) >= FEWEST_BETWEEN_LOADS,
        )
        self.condition = Condition("", tuple(self.cells), question)
        self.host = Host(scenario, source)
        values = np.full((count, scenario.rounds), np.nan)
        rounds = np.array(range(1, scenario.rounds + 1))
        self.layout = Layout(values, self.loads, np.arange(count), rounds, 0)
        self.rounds = self.trials = 0

    def measure(self, open_rows: Sequence[int]) -> None:
        """Measures another round of the cells that are open."""
        self.rounds += 1
        going_on = [self.cells[0], *(self.cells[row] for row in open_rows), self.cells[-1]]
        rows = [int(cell.id) for cell in order_of_round(going_on, self.rounds, 1, self.seed)]
        if self.scenario.slices is not None:
            errors = slice_errors(self.scenario.slices, rows, f"{self.seed}/{self.rounds}", self.source)
        else:
            errors = self.host.trials(self.deviations[rows])
        self.layout.values[rows, self.rounds - 1] = self.own[rows, self.rounds - 1] + errors
        self.trials += len(rows)

    def result(self, analysed: AnalysedCondition, *, full_grid: bool) -> Experiment:
        """Compares the verdicts of its analyses with the truth."""
        question, history = analysed.condition.question, analysed.history
        found = [(row, analysis_of(history, row)) for row in question.rows(Role.COMPARED)]
        words = {row: verdict_of(at, row, question) if history.stopped[row] else None for row, at in found}
        truth = {row: true_effect(at, row, self.effects, self.of_load, self.loads) for row, at in found}
        covered = [
            abs(at.contrasts.centre[row] - truth[row]) <= at.half_widths[row] for row, at in found if at is not None
        ]
        wrong = sum(is_wrong(words[row], truth[row]) for row in words)
        return Experiment(
            covered=sum(covered),
            intervals=len(covered),
            all_covered=all(covered),
            wrong=wrong > 0,
            false_words=wrong / max(1, sum(word in ("more", "less", "same") for word in words.values())),
            alarm=any(word in ("more", "less") for word in words.values()) and not self.effects.any(),
            undecided=sum(word is None for word in words.values()),
            narrow=sum(word == "narrow" for word in words.values()),
            trials=self.trials,
            full_grid=len(self.cells)
            * rounds_of_full_grid(self.scenario, self.own, self.loads, self.deviations, words, self.seed, question)
            if full_grid and None not in words.values()
            else None,
        )


def run_experiment(scenario: Scenario, seed: int, *, full_grid: bool) -> Experiment:
    """One experiment, round by round, until every cell is settled or the rounds are spent."""
    if scenario.together:
        return run_together(scenario, seed)
    one = Simulated(scenario, seed)
    question = one.condition.question
    history = begin(question)
    while one.rounds < scenario.rounds and (open_rows := history.open(question)):
        one.measure(open_rows)
        history = after_round(history, one.layout, question, one.rounds)
    return one.result(AnalysedCondition(one.condition, one.layout, history), full_grid=full_grid)


def run_together(scenario: Scenario, seed: int) -> Experiment:
    """All conditions of a run, which are analysed together after every round."""
    seeds = random.Random(seed)
    simulated = [Simulated(scenario, seeds.randrange(2**31)) for _ in range(scenario.conditions)]

    found = [AnalysedCondition(one.condition, one.layout, begin(one.condition.question)) for one in simulated]
    for number in range(1, scenario.rounds + 1):
        for place, one in enumerate(simulated):
            if open_rows := found[place].history.open(one.condition.question):
                one.measure(open_rows)
                found[place] = found[place].after_round(number)
                found = at_confirmed_level(found, [{} for _ in found])
    results = [one.result(at, full_grid=False) for one, at in zip(simulated, found, strict=True)]
    words = sum(scenario.cells - 1 - one.undecided - one.narrow for one in results)
    false = sum(one.false_words * (scenario.cells - 1 - one.undecided - one.narrow) for one in results)
    return Experiment(
        covered=sum(one.covered for one in results),
        intervals=sum(one.intervals for one in results),
        all_covered=all(one.all_covered for one in results),
        wrong=any(one.wrong for one in results),
        false_words=false / max(1, words),
        alarm=any(one.alarm for one in results),
        undecided=sum(one.undecided for one in results),
        narrow=sum(one.narrow for one in results),
        trials=sum(one.trials for one in results),
        full_grid=None,
    )


class Host:
    """What trials share with earlier ones: drift and autocorrelation."""

    def __init__(self, scenario: Scenario, source: np.random.Generator) -> None:
        self._scenario, self.source = scenario, source
        self._level = self._remembered = 0.0

    def trials(self, deviations: Floats) -> Floats:
        """The errors of successive trials; NaN is an invalid one."""
        scenario, source, count = self._scenario, self.source, len(deviations)
        span = 10 * (scenario.cells + 1)
        steps = self._level + np.cumsum(source.normal(scenario.trend / span, scenario.walk / np.sqrt(span), count))
        self._level = float(steps[-1])
        errors = source.normal(size=count)
        if scenario.memory:
            fresh = errors * np.sqrt(1 - scenario.memory**2)
            for place in range(count):
                self._remembered = errors[place] = scenario.memory * self._remembered + fresh[place]
        slow = np.where(source.random(count) < scenario.outliers, source.exponential(0.1, count), 0.0)
        lost = np.where(source.random(count) < scenario.missing, np.nan, 0.0)
        return steps + deviations * errors - slow + lost


def slice_errors(slices: Slices, rows: Sequence[int], seed: str, source: np.random.Generator) -> Floats:
    """What a round in slices adds to the logarithm of each row's trial, in the order of the rows."""
    count = len(rows)
    orders = np.array([order for order, _ in zip(turns(count, seed), range(slices.turns), strict=False)])
    sequence = orders.ravel()
    kept = np.exp(-1 / slices.fades)
    fresh = source.normal(0, slices.slow * np.sqrt(1 - kept**2), len(sequence))
    fresh[0] = source.normal(0, slices.slow)
    noise = lfilter([1.0], [1.0, -kept], fresh) + source.normal(0, slices.fast, len(sequence))
    last = max(rows)  # the control
    left = np.array([0.0 if row in (0, last) else slices.carry for row in rows])
    noise[1:] += left[sequence[:-1]]
    rates = np.exp(noise)
    return np.log([rates[sequence == place].mean() for place in range(count)])


@functools.cache
def make_cells(count: int) -> list[Cell]:
    """The baseline, the others, and the control; the id is the row."""
    cells = [Cell(str(row), str(row), {}, "", row == 0, control=False, dataset=str(row)) for row in range(count)]
    return [*cells, Cell(str(count), "again", {}, "", baseline=False, control=True, dataset=str(count))]


def analysis_of(history: InterimAnalyses, row: int) -> InterimAnalysis | None:
    """The analysis that counts for a row: the one that settled it, otherwise the last."""
    at = [one for one in history.analyses if one.round == history.stopped[row]] or list(history.analyses)
    return at[-1] if at else None


def verdict_of(at: InterimAnalysis | None, row: int, question: Question) -> str | None:
    """The verdict of a row at an analysis; None is undecided."""
    if at is None:
        return None
    centre, half_width = at.contrasts.centre[row], at.half_widths[row]
    judged = judge(centre, half_width, at.floor(question), question.threshold, question.precision)
    if judged.different:
        return "more" if centre > 0 else "less"
    return "same" if judged.same else "narrow" if judged.narrow else None


def true_effect(
    at: InterimAnalysis | None,
    row: int,
    effects: Floats,
    of_load: Floats,
    loads: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
) -> float:
    """The effect that an interval refers to: in general, or on the loads that were used."""
    if at is None or not at.contrasts.conditional[row]:
        return float(effects[row])
    used = np.unique(loads[row, : at.round])
    return float(effects[row] + (of_load[row, used] - of_load[0, used]).mean())


def is_wrong(word: str | None, truth: float) -> bool:
    """Whether a verdict contradicts the truth."""
    bound = np.log1p(THRESHOLD)
    return (word == "more" and truth <= 0) or (word == "less" and truth >= 0) or (word == "same" and abs(truth) > bound)


def rounds_of_full_grid(
    scenario: Scenario,
    own: Floats,
    loads: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    deviations: Floats,
    words: dict[int, str | None],
    seed: int,
    question: Question,
) -> int:
    """The fewest rounds of a full grid, analysed once, that give the verdicts that were reached, or any verdict where
    an interval was narrow enough; all rounds if no number does."""
    host = Host(scenario, np.random.default_rng([seed, 1]))
    cells = make_cells(scenario.cells)
    values = np.full(own.shape, np.nan)
    layout = Layout(values, loads, np.arange(len(cells)), np.array(range(1, own.shape[1] + 1)), 0)
    for number in range(1, scenario.rounds + 1):
        rows = [int(cell.id) for cell in order_of_round(cells, number, 2, seed)]
        if scenario.slices is not None:
            errors = slice_errors(scenario.slices, rows, f"{seed}/full/{number}", host.source)
        else:
            errors = host.trials(deviations[rows])
        values[rows, number - 1] = own[rows, number - 1] + errors
        found = contrasts(layout.until(np.full(len(cells), number)))
        if number < 2 or (question.waits_for_loads and not found.components.general):
            continue
        at = analyse(found, question, number, number, 0)
        reached = {row: verdict_of(at, row, question) for row in words}
        if all(reached[row] == word or (word == "narrow" and reached[row]) for row, word in words.items()):
            return number
    return scenario.rounds


def run_chunk(task: tuple[Scenario, int, int, int]) -> list[Experiment]:
    """Several experiments of a scenario, each with its own seed."""
    scenario, seed, first, count = task
    seeds = random.Random(f"{seed}/{scenario.name}/{scenario.cells}/{first}")
    return [
        run_experiment(scenario, seeds.randrange(2**31), full_grid=number % 10 == 0)
        for number in range(first, first + count)
    ]


def row_of(scenario: Scenario, found: Sequence[Experiment], seconds: float) -> str:
    """A line of the table."""

    def share(of: list[bool]) -> str:
        return f"{100 * np.mean(of):7.2f}"

    compared = (scenario.cells - 1) * (scenario.conditions if scenario.together else 1) * len(found)
    grids = [(one.trials, one.full_grid) for one in found if one.full_grid is not None]
    used, full = np.array(grids or [(np.nan, np.nan)]).T
    equal = not any(scenario.effects)
    return "".join(
        [
            f"{scenario.name:26}{scenario.cells:6}",
            f"{100 * sum(one.covered for one in found) / max(1, sum(one.intervals for one in found)):10.2f}",
            share([one.all_covered for one in found]),
            share([one.wrong for one in found]),
            f"{100 * np.mean([one.false_words for one in found]):7.2f}",
            share([one.alarm for one in found]) if equal else f"{'':7}",
            f"{100 * sum(one.undecided for one in found) / compared:10.2f}",
            f"{100 * sum(one.narrow for one in found) / compared:8.2f}",
            f"{used.sum() / full.sum():11.2f}{used.mean() / np.quantile(full, 0.95):9.2f}",
            f"{np.mean([one.trials for one in found]):8.1f}{seconds:6.0f}",
        ]
    )


def main() -> None:
    """Runs the scenarios and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10_000, help="of each scenario")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grid", type=Path, default=GRID, help="the directory of the published queries.csv")
    parser.add_argument("--orders", type=int, default=200, help="random orders in which the grid is replayed")
    parser.add_argument("--only", default="", help="scenarios whose name has this in it")
    arguments = parser.parse_args()

    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for the child processes, whose matrices are small
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        print(f"{arguments.experiments} experiments each, seed {arguments.seed}; percent, ratios, trials in the mean")
        print(
            f"{'scenario':26}{'cells':>6}{'coverage':>10}{'all':>7}{'wrong':>7}{'false':>7}{'alarm':>7}{'undecided':>10}"
            f"{'narrow':>8}{'hindsight':>11}{'planned':>9}{'trials':>8}{'s':>6}"
        )
        for scenario in scenarios():
            if arguments.only not in scenario.name:
                continue
            began = time.monotonic()
            firsts = range(0, arguments.experiments, CHUNK)
            tasks = [(scenario, arguments.seed, first, min(CHUNK, arguments.experiments - first)) for first in firsts]
            found = [one for chunk in pool.imap(run_chunk, tasks) for one in chunk]
            print(row_of(scenario, found, time.monotonic() - began), flush=True)
    print()
    replay(arguments.grid / "queries.csv", arguments.orders, arguments.seed)


if __name__ == "__main__":
    main()
