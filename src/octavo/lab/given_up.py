"""Cells that are no longer measured after several rounds without a valid trial: one notice each, with the fix."""

from collections.abc import Sequence

from octavo.analysis.trials import given_up
from octavo.lab.events import Notice, Notify
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord


def without_verdict(cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> set[str]:
    """The cells that will get no verdict: those given up, and all cells of a condition whose baseline is given up."""
    lost = given_up(trials)
    conditions = {cell.condition for cell in cells if cell.baseline and cell.id in lost}
    return {cell.id for cell in cells if cell.id in lost or cell.condition in conditions}


class GivenUpCells:
    """Sends one notice for each cell of a run that is given up."""

    def __init__(self, run: str, cells: Sequence[Cell], notify: Notify) -> None:
        self._run, self._cells, self._notify = run, cells, notify
        self._told: set[str] = set()

    def look(self, trials: Sequence[TrialRecord]) -> None:
        """Sends notices of the cells that were given up since the last call."""
        lost = given_up(trials) - self._told
        if not lost:
            return
        self._told |= lost
        named = [f"{cell.condition}: {cell.label}" if cell.condition else cell.label
                 for cell in self._cells if cell.id in lost]  # fmt: skip
        reason = next((trial.reason for trial in reversed(trials) if trial.cell in lost), None)
        self._notify(
            Notice(
                f"no longer measured, because no trial was valid round after round: {', '.join(named)}; for example: "
                f"{reason}; fix this, then octavo run --retry-failed {self._run} repeats them"
            )
        )
