"""The heatmap of a condition on a terminal: coloured squares, and the same figures where there is no colour."""

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from octavo.report import grids
from octavo.report.chart_colours import DARK, hexadecimal, text_on
from octavo.report.document import (
    Document,
    Row,
    better_direction,
    cells,
    clean,
    compared,
    effects_by_key,
    levels,
    title,
    words,
)
from octavo.report.grids import Square

# Fewer cells than these are read faster in the table.
FEWEST = 9


# Squares of this width hold their intervals, too.
WITH_INTERVAL = 17
# Of the 256 colours those for no step, and for each step that a cell is better or worse; text is dark on bright ones.
FEW_BETTER = (236, 17, 18, 24, 25, 26, 32, 39)
FEW_WORSE = (236, 58, 94, 94, 130, 166, 172, 208)
BRIGHT = 5


def heatmap(document: Document, condition: str, console: Console) -> Padding | None:
    """Percentages of the baseline, one factor across and one down; None where cells are no grid, or few.

    A wide terminal gets the intervals, too.
    """
    here = [cell for cell in cells(document, condition) if not cell["control"]]
    if len(compared(document)) != 2 or len(here) < FEWEST:
        return None
    x, y = compared(document)
    metric = document["run"]["primary_metric"]
    better, effects = better_direction(document), effects_by_key(document)
    columns = levels(document, x)
    wide = console.width >= 12 + WITH_INTERVAL * len(columns)
    plain = not console.encoding.lower().replace("-", "").startswith("utf")
    squares: dict[tuple[str, str], Text] = {}
    for cell in here:
        effect = effects.get((cell["id"], metric, None))
        square = grids.square(cell, effect, better, {})
        place = str(cell["levels"].get(x)), str(cell["levels"].get(y))
        squares[place] = _square(square, _ends(cell, effect) if wide else None, console.color_system, plain=plain)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim" if console.is_terminal else "")
    table.add_column("", justify="right", no_wrap=True)
    for column in columns:
        table.add_column(Text(clean(column)), justify="right", min_width=6, no_wrap=True)
    for row in levels(document, y)[::-1]:
        table.add_row(Text(clean(row)), *(squares.get((column, row), Text("")) for column in columns))
    head = (
        f"{title(document, metric)} in % of the baseline: {words(x)} across, {words(y)} down; * baseline, ? undecided"
    )
    shown = clean(head) if not plain else clean(head).encode("ascii", "replace").decode()
    return Padding(Group(Text(shown, style="dim" if console.is_terminal else ""), table), (0, 0, 1, 2), expand=False)


def _ends(cell: Row, effect: Row | None) -> str:
    if cell["baseline"]:
        return "baseline"
    if effect is None or effect["low"] is None or effect["high"] is None:
        return ""
    return grids.interval(effect["low"], effect["high"])


def _square(square: Square, ends: str | None, colours: str | None, *, plain: bool) -> Text:
    """The figure with a mark behind it (the baseline's `*`, `?` where nothing is decided), and its interval."""
    mark = "*" if square.baseline else "?" if square.undecided else " "
    reported = f"{square.figure:>5}{mark}" + ("" if ends is None else f"{ends:>{WITH_INTERVAL - 8}} ")
    if plain:
        reported = reported.replace("×", "x").replace("–", "-")
    return Text(reported, style=f"{_style(square.step, colours)}{' bold' if square.baseline else ''}")


def _style(step: int, colours: str | None) -> str:
    """Colours by what the terminal can do; of the nearest ones of 256 faint blues and faint oranges are the same."""
    if colours == "256":
        fill = FEW_BETTER[step] if step >= 0 else FEW_WORSE[-step]
        return f"color({16 if abs(step) > BRIGHT else 231}) on color({fill})"
    if colours == "standard":
        return "" if step == 0 else "bright_white on blue" if step > 0 else "black on yellow"
    fill = grids.colour(step, DARK)
    return f"{text_on(fill)} on {hexadecimal(fill)}"
