"""Layouts and trials for the tests of the analysis, in short notation."""

from collections.abc import Sequence

import numpy as np
from tests.unit.plans import changed_plan

from octavo.analysis.interim import InterimAnalyses, Question, Role, after_round, begin
from octavo.analysis.layout import Floats, Layout
from octavo.observation import Observation
from octavo.plan.cells import Cell, make_cells
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord, TrialStatus


def analyse_rounds(layout: Layout, question: Question, rounds: Sequence[int]) -> InterimAnalyses:
    """The analyses after these rounds, each complete, in order."""
    history = begin(question)
    for round_number in rounds:
        history = after_round(history, layout, question, round_number)
    return history


def layout(
    values: Sequence[Sequence[float]] | Floats,
    loads: Sequence[Sequence[int]] | Sequence[int],
    datasets: Sequence[int] | None = None,
) -> Layout:
    """Cells by rounds, the baseline first; without `datasets` every cell has its own."""
    table = np.array(values, dtype=np.float64)
    count, rounds = table.shape
    used = np.array(loads, dtype=np.int64)
    return Layout(
        table,
        np.tile(used, (count, 1)) if used.ndim == 1 else used,
        np.array(range(count) if datasets is None else datasets, dtype=np.int64),
        np.array(range(1, rounds + 1), dtype=np.int64),
        0,
    )


def simulated(
    source: np.random.Generator, cells: int, loads: Sequence[int], *, of_load: float, of_trial: float
) -> Layout:
    """Cells that do not differ: their loads and trials scatter by these deviations."""
    effects = source.normal(0, of_load, (cells, max(loads) + 1))
    return layout(effects[:, list(loads)] + source.normal(0, of_trial, (cells, len(loads))), loads)


def compared(count: int, *, conditions: int = 1, once: bool = False, first_look: int = 2) -> Question:
    """A baseline and `count` cells that are compared with it, without a control; nothing waits for more loads."""
    roles = (Role.BASELINE, *[Role.COMPARED] * count)
    return Question(roles, 0.03, 0.015, conditions, has_floor=False, once=once, first_look=first_look)


def read_only_plan(*keys: str) -> tuple[Plan, list[Cell]]:
    """4 kB pages compared with 8 kB, and the control."""
    plan = changed_plan({"\n[baseline]": "\n".join((*keys, "", "[baseline]"))}, mode=["read-only"])
    return plan, make_cells(plan)


def trial(
    cell: Cell,
    round_number: int,
    tps: float = 0.0,
    *,
    status: TrialStatus = "ok",
    attempt: int = 1,
    part: int = 1,
    load: int | None = None,
) -> TrialRecord:
    """A trial with one number; rounds alternate between two loads, the control between two of its own."""
    used = 1 + (round_number - 1) % 2 + 2 * cell.control if load is None else load
    observations = (Observation("tps", tps, "1/s"),) if status == "ok" else ()
    return TrialRecord(cell.id, round_number, attempt, 1, used, status, None, 0.0, 1.0, 1, observations, part=part)
