"""A heatmap of the page's small tables as a chart, for files."""

from typing import Any

from octavo.report.chart_colours import PLAIN, hexadecimal, text_on
from octavo.report.chart_style import Chart, layered, mark, name, number, short_names
from octavo.report.document import clean, clip
from octavo.report.grids import Grid, colour

SQUARE = (76, 44)
# About how wide a letter of an axis is, in pixels.
_LETTER = 6.5


def grid_chart(grid: Grid, heading: str) -> Chart:
    """The squares of a grid with their figures, marks and letters of plans, as on the page."""
    across = short_names(grid.columns, 18)
    down = short_names([label for label, _ in grid.rows], 48)
    rows = [
        {
            "x": across[column],
            "y": down[label],
            "fill": hexadecimal(colour(square.step, PLAIN)),
            "text": text_on(colour(square.step, PLAIN)),
            "upper": square.figure + (" ?" if square.undecided else ""),
            "lower": clip(clean(square.letters), 10) or square.ends,
            "outline": PLAIN.ink if square.baseline or square.undecided else hexadecimal(PLAIN.paper),
            "weight": 3 if square.baseline else 1.2,
            "dash": [2, 2.5] if square.undecided else [1, 0],
        }
        for label, squares in grid.rows
        for column, square in zip(grid.columns, squares, strict=True)
        if square is not None
    ]
    axis: dict[str, Any] = {"domain": False, "ticks": False, "labelPadding": 6}
    gaps = {"paddingInner": 0.06, "paddingOuter": 0.03}
    slanted = max(map(len, across.values())) * _LETTER > SQUARE[0]
    tilt = {"labelAngle": -30, "labelAlign": "right", "labelLimit": 0} if slanted else {"labelAngle": 0}
    bottom = {**axis, **tilt, "orient": "bottom"}
    at = {
        "x": name("x", sort=list(across.values()), title=grid.x, axis=bottom, scale=gaps),
        "y": name("y", sort=list(down.values()), title=grid.y, axis=axis, scale=gaps),
    }
    looks = {
        "fill": name("fill", scale=None),
        "stroke": name("outline", scale=None),
        "strokeWidth": number("weight", scale=None, legend=None),
    }
    text = {"color": name("text", scale=None)}
    lettered = any(square and square.letters for _, squares in grid.rows for square in squares)
    solid = [row for row in rows if row["dash"] == [1, 0]]
    dotted = [row for row in rows if row["dash"] != [1, 0]]
    layers = [
        mark("rect", solid, at | looks, cornerRadius=2, strokeDash=[1, 0]),
        mark("rect", dotted, at | looks, cornerRadius=2, strokeDash=[2, 2.5]),
        mark("text", rows, at | {"text": name("upper")} | text, fontSize=13, fontWeight=600, dy=-7),
        mark("text", rows, at | {"text": name("lower")} | text, fontSize=10, dy=10),
    ]
    message = "% of the baseline, and its 95 % interval; a heavy outline: the baseline; dotted and ?: undecided"
    if lettered:
        message = "% of the baseline; a heavy outline: the baseline; dotted and ?: undecided; letters: plans"
    title = {"text": clip(clean(heading), 60), "subtitle": message, "subtitleFontSize": 11}
    width, height = SQUARE[0] * len(across), SQUARE[1] * len(down)
    return Chart(layered(layers, width=width, height=height, title=title), "grid", f"Heatmap: {heading}")
