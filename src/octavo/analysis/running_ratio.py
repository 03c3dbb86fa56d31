"""The ratios so far, for the progress display; they have no interval and no verdict."""

import math
from collections.abc import Sequence

from octavo.analysis.trials import used_trials, values_of_wholes
from octavo.plan.cells import Cell
from octavo.store.records import TrialRecord


def running_ratios(cells: Sequence[Cell], trials: Sequence[TrialRecord], metric: str) -> dict[tuple[str, str], float]:
    """By condition and label, the geometric mean so far of cell / baseline within rounds."""
    names = {cell.id: cell for cell in cells}
    baselines = {cell.condition: cell.id for cell in cells if cell.baseline}
    values = values_of_wholes(used_trials(trials), metric)
    logarithms: dict[tuple[str, str], list[float]] = {}
    for (round_number, part, identifier), value in values.items():
        cell = names[identifier]
        below = values.get((round_number, part, baselines.get(cell.condition, "")), 0.0)
        if not cell.baseline and value > 0 and below > 0:
            logarithms.setdefault((cell.condition, cell.label), []).append(math.log(value / below))
    return {name: math.exp(math.fsum(found) / len(found)) for name, found in logarithms.items()}
