"""Results of earlier trials, which those of a resumed run must equal."""

from collections.abc import Iterable, Sequence

from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord
from octavo.workloads.base import ComparesResults, Workload


def recall_results(workload: Workload, cells: Sequence[Cell], trials: Iterable[TrialRecord]) -> None:
    """Passes the results of the trials so far, in order, to a workload that compares results."""
    if not isinstance(workload, ComparesResults):
        return
    levels = {cell.id: cell.levels for cell in cells}
    for trial in trials:
        if trial.status in ("ok", "invalid") and trial.facts and trial.cell in levels:
            workload.recall(levels[trial.cell], trial.facts)
