"""Results of earlier trials, to which the results of a resumed run must be equal."""

from collections.abc import Iterable, Sequence

from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord
from octavo.workloads.base import ComparesResults, Workload


def recall_results(workload: Workload, cells: Sequence[Cell], trials: Iterable[TrialRecord]) -> None:
    """Gives the workload the results of the trials so far, in their order, if it compares results."""
    if not isinstance(workload, ComparesResults):
        return
    levels = {cell.id: cell.levels for cell in cells}
    for trial in trials:
        if trial.status in ("ok", "invalid") and trial.facts and trial.cell in levels:
            workload.recall(levels[trial.cell], trial.facts)
