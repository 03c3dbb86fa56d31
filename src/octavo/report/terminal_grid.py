"""The heatmap of a condition on a terminal: coloured squares, and the same figures where there is no colour."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from octavo.report import grids
from octavo.report.chart_colours import DARK, hexadecimal, text_on
from octavo.report.document import Document, by_key, cells, clean, compared, levels
from octavo.report.grids import Square

# Fewer cells than these are read faster in the table.
FEWEST = 9


def heatmap(document: Document, condition: str, console: Console) -> Padding | None:
    """Percentages of the baseline, one factor across and one down; None where cells are no grid, or few."""
    here = [cell for cell in cells(document, condition) if not cell["control"]]
    if len(compared(document)) != 2 or len(here) < FEWEST:
        return None
    x, y = compared(document)
    metric = document["run"]["primary_metric"]
    better, effects = document["metrics"].get(metric, {}).get("better"), by_key(document["effects"])
    squares = {
        (str(cell["levels"].get(x)), str(cell["levels"].get(y))): grids.square(
            cell, effects.get((cell["id"], metric, None)), better, {}
        )
        for cell in here
    }
    columns = levels(document, x)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim" if console.is_terminal else "")
    table.add_column("", justify="right", no_wrap=True)
    for column in columns:
        table.add_column(Text(clean(column)), justify="right", min_width=6, no_wrap=True)
    plain = not console.encoding.lower().replace("-", "").startswith("utf")
    for row in levels(document, y)[::-1]:
        table.add_row(Text(clean(row)), *(_square(squares.get((column, row)), plain=plain) for column in columns))
    return Padding(table, (0, 0, 1, 2), expand=False)


def _square(square: Square | None, *, plain: bool) -> Text:
    """The figure with a mark behind it: the baseline's `*`, `?` where nothing is decided."""
    if square is None:
        return Text("")
    mark = "*" if square.baseline else "?" if square.undecided else " "
    fill = grids.colour(square.step, DARK)
    figure = square.figure.replace("×", "x").replace("–", "-") if plain else square.figure
    return Text(
        f"{figure:>5}{mark}", style=f"{text_on(fill)} on {hexadecimal(fill)}{' bold' if square.baseline else ''}"
    )
