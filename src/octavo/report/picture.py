"""The heatmaps of the primary metric: a grid for each condition, or one table of conditions and cells.

Page, terminal and files draw the same squares, in the steps of one scale, so that conditions can be compared.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from octavo.plan.condition_text import capital
from octavo.report import grids
from octavo.report.answer import cell_name
from octavo.report.document import (
    Document,
    better_direction,
    cells,
    clean,
    clip,
    compared,
    conditions,
    effects_by_key,
    title,
    words,
)
from octavo.report.grids import Grid, Square
from octavo.report.memo import once
from octavo.report.plain import condition_text

# Of fewer compared cells a forest plot says more than squares.
FEWEST_SQUARES = 13
# A grid of which this share is there is drawn as one; else its cells are the columns of a table.
_DENSE = 0.6
# More grids than these below each other are a table of conditions.
MOST_GRIDS = 12


@once
def heat_grids(document: Document) -> list[Grid]:
    """The heatmaps, titled by their conditions; none before there is an effect of a compared cell."""
    primary = document["run"]["primary_metric"]
    known = {key[0] for key, row in effects_by_key(document).items() if key[1:] == (primary, None) and row["ratio"]}
    known &= {cell["id"] for cell in document["cells"] if _is_compared(cell)}
    if not known:
        return []
    if not _is_grid(document):
        return [_table(document)]
    found: list[Grid] = []
    if best := document.get("best_of"):
        whole = grids.best_sheet(document, best).whole
        found += [replace(whole, title="total of the shortest runs")] if whole else []
    for condition in conditions(document):
        here = cells(document, condition)
        if any(cell["id"] in known for cell in here):
            name = condition_text(condition) or "all trials"
            found.append(replace(grids.grid(document, here, effects_by_key(document), None, None), title=name))
    return found


def is_forest(document: Document) -> bool:
    """Whether the compared cells are so few that each has a row of its own."""
    return sum(_is_compared(cell) for cell in document["cells"]) < FEWEST_SQUARES


def forest_heading(document: Document) -> str:
    """The heading of the estimates."""
    what = clip(clean(title(document, document["run"]["primary_metric"])), 60)
    return f"{capital(what)} relative to {_baseline(document) or 'the baseline'}"


def _baseline(document: Document) -> str:
    """The baseline's levels, where its label has them."""
    found = next((cell for cell in document["cells"] if cell["baseline"] and cell["label"] != "baseline"), None)
    return clean(cell_name(document, found)) if found else ""


def _is_compared(cell: Mapping[str, Any]) -> bool:
    return not cell["baseline"] and not cell["control"]


def heading(document: Document) -> str:
    """The heading of the squares."""
    baseline = _baseline(document)
    name = f" ({baseline})" if baseline else ""
    what = clip(clean(title(document, document["run"]["primary_metric"])), 60)
    return f"{capital(what)} in percent of the baseline{name}"


def _is_grid(document: Document) -> bool:
    """Whether each condition is a grid of two factors with few holes, and there are few of them."""
    if len(compared(document)) != 2 or len(conditions(document)) > MOST_GRIDS:
        return False
    shares: list[float] = []
    for condition in conditions(document):
        here = [cell for cell in cells(document, condition) if not cell["control"]]
        sides = [len({str(cell["levels"].get(factor)) for cell in here}) for factor in compared(document)]
        shares.append(len(here) / max(1, sides[0] * sides[1]))
    return min(shares, default=0.0) >= _DENSE


def _table(document: Document) -> Grid:
    """Conditions down, cells across; the baseline, which is 100 everywhere, is left out."""
    metric = document["run"]["primary_metric"]
    better, effects = better_direction(document), effects_by_key(document)
    columns = list(dict.fromkeys(str(cell["label"]) for cell in document["cells"] if _is_compared(cell)))
    rows: list[tuple[str, list[Square | None]]] = []
    for condition in conditions(document):
        squares: Mapping[str, Any] = {
            str(cell["label"]): grids.square(cell, effects.get((cell["id"], metric, None)), better, {})
            for cell in cells(document, condition)
            if _is_compared(cell)
        }
        rows.append((condition_text(condition) or "all trials", [squares.get(column) for column in columns]))
    what = " × ".join(words(factor) for factor in compared(document)) or "cell"
    return Grid(title="", note="", x=what, y="condition", columns=columns, rows=rows)
