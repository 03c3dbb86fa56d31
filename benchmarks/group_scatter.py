"""Coverage of intervals when some cells have far more variance than others: one pooled variance or one per group.

    .venv/bin/python benchmarks/group_scatter.py [--experiments 600] [--jobs 2] [--seed 1]

A fixed plan of 42 cells in 6 groups of 7 that do not differ, with the baseline in the first group; each load has one
trial. Trials scatter by 1 %, those of the last group `times` as much. Printed, in percent: the intervals that contain
the true value for quiet and for noisy cells, the experiments in which all do, and the median half-width of quiet cells.
"""

import argparse
import multiprocessing
import os
from dataclasses import dataclass, replace

import numpy as np

from octavo.analysis.interim import Question, Role, single_analysis
from octavo.analysis.layout import Floats, Layout

CELLS, GROUP = 42, 7
DEVIATION = 0.01


@dataclass(frozen=True, slots=True)
class Scenario:
    """`kind`: normal; two values (one of three trials is the larger one); heavy tails (t with 3 degrees of freedom);
    own (every cell also has a variance of its own); missing (a tenth of the trials); baseline (its group is noisy)."""

    times: float
    kind: str = "normal"


SCENARIOS = (
    *(Scenario(times) for times in (1, 4, 20, 80)),
    Scenario(80, "two values"),
    *(Scenario(times, kind) for kind in ("heavy tails", "own") for times in (1, 20)),
    Scenario(20, "missing"),
    Scenario(10, "baseline"),
)


def simulate(scenario: Scenario, loads: int, source: np.random.Generator) -> tuple[Layout, Floats]:
    """One experiment, and the true logarithm of each cell's ratio to the baseline."""
    noisy = np.zeros(CELLS, dtype=bool)
    noisy[:GROUP] = scenario.kind == "baseline"
    noisy[-GROUP:] = scenario.kind != "baseline"
    deviations = DEVIATION * np.where(noisy, scenario.times, 1.0)
    errors = source.normal(size=(CELLS, loads))
    truth = np.zeros(CELLS)
    if scenario.kind == "heavy tails":
        errors = source.standard_t(3, (CELLS, loads)) / np.sqrt(3)
    elif scenario.kind == "own":
        deviations = deviations * np.exp(source.normal(0, 0.5, CELLS))
    elif scenario.kind == "two values":
        errors[noisy] = 2.0 * (source.random((GROUP, loads)) < 1 / 3)
        truth[noisy] = 2 / 3 * deviations[noisy]
    values = deviations[:, None] * errors
    if scenario.kind == "missing":
        values[1:] = np.where(source.random((CELLS - 1, loads)) < 0.1, np.nan, values[1:])
    numbers = np.tile(np.arange(1, loads + 1), (CELLS, 1))
    groups = np.repeat(range(CELLS // GROUP), GROUP)
    layout = Layout(values, numbers, np.arange(CELLS), np.arange(1, loads + 1), 0, groups)
    return layout, truth


def run_chunk(task: tuple[Scenario, int, bool, int, int]) -> list[tuple[float, float, bool, float]]:
    """Several experiments: the shares of quiet and of noisy intervals that contain the true value, whether all do, and
    the median half-width."""
    scenario, loads, by_group, seed, count = task
    roles = (Role.BASELINE, *[Role.COMPARED] * (CELLS - 1))
    question = Question(roles, 0.03, 0.015, has_floor=False, once=True, loads=loads)
    found: list[tuple[float, float, bool, float]] = []
    for number in range(count):
        layout, truth = simulate(scenario, loads, np.random.default_rng([seed, number]))
        look = single_analysis(layout if by_group else replace(layout, groups=None), question)
        known = np.isfinite(look.half_widths)
        held = ~known | (np.abs(look.contrasts.centre - truth) <= look.half_widths)
        quiet, noisy = held[1:-GROUP], held[-GROUP:]
        width = float(np.nanmedian(look.half_widths[1:-GROUP]))
        found.append((float(quiet.mean()), float(noisy.mean()), bool(held[1:].all()), width))
    return found


def main() -> None:
    """Runs the scenarios and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=600, help="of each line")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for the child processes, whose matrices are small
    chunks = 8
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        print(f"{'kind':14}{'times':>6}{'loads':>6}{'pool':>8}{'quiet':>8}{'noisy':>8}{'all':>8}{'half':>8}")
        for scenario in SCENARIOS:
            for loads, by_group in ((3, False), (3, True), (6, False), (6, True)):
                tasks = [
                    (scenario, loads, by_group, 1000 * arguments.seed + chunk, max(1, arguments.experiments // chunks))
                    for chunk in range(chunks)
                ]
                rows = np.array([row for chunk in pool.imap(run_chunk, tasks) for row in chunk])
                shares = "".join(f"{100 * value:8.2f}" for value in rows.mean(axis=0))
                word = "group" if by_group else "one"
                print(f"{scenario.kind:14}{scenario.times:6.0f}{loads:6}{word:>8}{shares}", flush=True)


if __name__ == "__main__":
    main()
