"""A heatmap of the page's small tables as a chart, for files."""

from typing import Any

from octavo.report.chart_colours import PLAIN, hexadecimal, text_on
from octavo.report.chart_style import Chart, inline_data, layered, short_names
from octavo.report.document import clean, clip
from octavo.report.grids import Grid, colour

SQUARE = (76, 44)
# About how wide a letter of an axis is, in pixels.
_LETTER = 6.5


def grid_chart(grid: Grid, heading: str) -> Chart:
    """The squares of a grid with their figures, marks and letters of plans, as on the page."""
    import altair as alt

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
    gaps = alt.Scale(paddingInner=0.06, paddingOuter=0.03)
    slanted = max(map(len, across.values())) * _LETTER > SQUARE[0]
    tilt: dict[str, Any] = {"labelAngle": -30, "labelAlign": "right", "labelLimit": 0} if slanted else {"labelAngle": 0}
    bottom = alt.Axis(**axis, **tilt, orient="bottom")
    x = alt.X("x:N", sort=list(across.values()), title=grid.x, axis=bottom, scale=gaps)
    y = alt.Y("y:N", sort=list(down.values()), title=grid.y, axis=alt.Axis(**axis), scale=gaps)
    text = alt.Color("text:N", scale=None)

    def squares_of(dashed: list[dict[str, Any]], dash: list[float]) -> Any:
        return (
            alt.Chart(inline_data(dashed))
            .mark_rect(cornerRadius=2, strokeDash=dash)
            .encode(
                x=x,
                y=y,
                fill=alt.Fill("fill:N", scale=None),
                stroke=alt.Stroke("outline:N", scale=None),
                strokeWidth=alt.StrokeWidth("weight:Q", scale=None, legend=None),
            )
        )

    base = alt.Chart(inline_data(rows)).encode(x=x, y=y)
    lettered = any(square and square.letters for _, squares in grid.rows for square in squares)
    layers = [
        squares_of([row for row in rows if row["dash"] == [1, 0]], [1, 0]),
        squares_of([row for row in rows if row["dash"] != [1, 0]], [2, 2.5]),
        base.mark_text(fontSize=13, fontWeight=600, dy=-7).encode(text=alt.Text("upper:N"), color=text),
        base.mark_text(fontSize=10, dy=10).encode(text=alt.Text("lower:N"), color=text),
    ]
    message = "% of the baseline, and its 95 % interval; a heavy outline: the baseline; dotted and ?: undecided"
    if lettered:
        message = "% of the baseline; a heavy outline: the baseline; dotted and ?: undecided; letters: plans"
    title = {"text": clip(clean(heading), 60), "subtitle": message, "subtitleFontSize": 11}
    width, height = SQUARE[0] * len(across), SQUARE[1] * len(down)
    return Chart(layered(layers, width=width, height=height, title=title), "grid", f"Heatmap: {heading}")
