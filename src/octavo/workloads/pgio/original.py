"""The line in which the original prints its result (runit.sh, f_format_output), for each cell of a run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from octavo.units import parse_duration

if TYPE_CHECKING:
    from octavo.plan.cells import Cell
    from octavo.store.records import TrialRecord

# Its values, in this order.
FIGURES = ("riops", "cache_hits_per_second")


def result_line(database: str, levels: Mapping[str, str], riops: float, hits: float) -> str:
    """The line that runit.sh would print for these figures; it truncates decimals.

    >>> levels = {"schemas": "4", "threads": "1", "duration": "600s"}
    >>> result_line("pgio", levels, 877.4, 1443874.9)
    'DBNAME:  pgio. 4 schemas, 1 threads(each). Run time: 600 seconds. RIOPS >877< CACHE_HITS/s >1443874<'
    """
    return (
        f"DBNAME:  {database}. {levels['schemas']} schemas, {levels['threads']} threads(each). "
        f"Run time: {parse_duration(levels['duration']):.0f} seconds. RIOPS >{int(riops)}< CACHE_HITS/s >{int(hits)}<"
    )


def result_lines(cells: Sequence[Cell], trials: Sequence[TrialRecord], database: str) -> list[str]:
    """One line for each cell with some of these trials: the cell's name, then medians over them."""
    found: list[str] = []
    for cell in cells:
        figures: dict[str, list[float]] = {figure: [] for figure in FIGURES}
        for trial in trials:
            if trial.cell == cell.id:
                for one in trial.observations:
                    if one.metric in figures and one.item is None:
                        figures[one.metric].append(one.value)
        if all(figures.values()):
            riops, hits = (statistics.median(values) for values in figures.values())
            found.append(f"{cell.id}: {result_line(database, cell.levels, riops, hits)}")
    return found
