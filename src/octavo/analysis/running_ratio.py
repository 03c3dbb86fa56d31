"""The ratios so far, for the progress display; they have no interval and no verdict."""

import math
from collections.abc import Sequence

from octavo.analysis.pairing import log_ratios
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord


def running_ratios(cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str) -> dict[tuple[str, str], float]:
    """By condition and label, the geometric mean so far of cell / baseline within rounds."""
    names = {cell.id: (cell.condition, cell.label) for cell in cells}
    return {
        names[cell]: math.exp(math.fsum(ratio.value for ratio in ratios[None, metric]) / len(ratios[None, metric]))
        for cell, ratios in log_ratios(cells, trials).items()
        if (None, metric) in ratios
    }
