"""Heatmaps of the primary metric relative to the baseline.

Blue is better and orange is worse (for a metric where less is better, blue is less). The colour follows the
logarithm of the ratio; every square also says its number, so nothing is told by colour alone.
"""

import math
from typing import Any

from octavo.report import numbers
from octavo.report.chart_colours import Theme, diverging, hexadecimal, reach, text_on
from octavo.report.chart_style import Chart, inline_data, layered, short_names, stacked
from octavo.report.course import absent
from octavo.report.document import (
    Document,
    Key,
    Row,
    cells,
    clip,
    compared,
    conditions,
    effects_by_key,
    levels,
    title,
    tone,
    words,
)

SQUARE = 56
WIDEST_SQUARE = 140
# About how wide a letter of an axis is, in pixels.
LETTER = 6.5
LONGEST_INTERVAL = 15


def is_grid(document: Document) -> bool:
    """Whether exactly two factors are compared, so that a condition is a grid of their levels."""
    return len(compared(document)) == 2


def heatmap(document: Document, theme: Theme) -> Chart | None:
    """Conditions × cells, or with two compared factors a grid a condition; None without any effect."""
    primary = document["run"]["primary_metric"]
    effects = effects_by_key(document)
    shown = [effects[key] for key in effects if key[1] == primary and key[2] is None and effects[key]["ratio"]]
    if not shown:
        return None
    limit = reach(math.log(row["ratio"]) for row in shown)
    name = clip(title(document, primary), 60)
    grids: list[dict[str, Any]] = []
    if is_grid(document):
        x, y = compared(document)
        for condition in conditions(document):
            if any(row["condition"] == condition for row in shown):
                squares = _grid(document, condition, effects, limit, theme)
                order = (levels(document, x), levels(document, y)[::-1])
                heading = f"{name} relative to the baseline" + (f" · {clip(condition, 60)}" if condition else "")
                grids.append(_squares(squares, order, (words(x), words(y)), heading, theme))
    else:
        squares = [
            _square(document, cell, effects, limit, theme) | {"x": cell["label"], "y": condition or "all trials"}
            for condition in conditions(document)
            for cell in cells(document, condition)
        ]
        columns = list(dict.fromkeys(cell["label"] for cell in document["cells"]))
        rows = [condition or "all trials" for condition in conditions(document)]
        what = " × ".join(words(factor) for factor in compared(document)) or "cell"
        grids.append(_squares(squares, (columns, rows), (what, None), f"{name} relative to the baseline", theme))
    what = f"Heatmap of {name} relative to the baseline; the table has the numbers."
    return Chart(stacked(grids, 28), "heatmap", what)


def _grid(
    document: Document, condition: str, effects: dict[Key, Row], limit: float, theme: Theme
) -> list[dict[str, Any]]:
    """The squares of one condition by the levels of two factors; the A/A control has no square."""
    x, y = compared(document)
    return [
        _square(document, cell, effects, limit, theme)
        | {"x": str(cell["levels"].get(x)), "y": str(cell["levels"].get(y))}
        for cell in cells(document, condition)
        if not cell["control"]
    ]


def _square(document: Document, cell: Row, effects: dict[Key, Row], limit: float, theme: Theme) -> dict[str, Any]:
    """One square: its fill, its outline, and up to two lines of text."""
    primary = document["run"]["primary_metric"]
    effect = effects.get((cell["id"], primary, None))
    lower_is_better = document["metrics"].get(primary, {}).get("better") == "lower"
    fill, outline, dash = theme.paper, theme.line, "solid"
    upper, lower = "–", absent(document).get(cell["id"], "no data")
    if cell["baseline"]:
        fill, upper, lower, outline = diverging(0, theme), "100 %", "baseline", theme.ink
    elif effect is not None and effect["ratio"]:
        position = math.log(effect["ratio"]) / limit * (-1 if lower_is_better else 1)
        fill = diverging(position, theme)
        upper = _percent(effect["ratio"], effect)
        ends = (effect["low"], effect["high"])
        lower = "–".join(_bare(end, effect) for end in ends) if None not in ends else "no interval"
        if len(lower) > LONGEST_INTERVAL:  # it says no more, and does not fit
            lower = "far from known"
        outline = hexadecimal(fill)
        if tone(effect) == "undecided":
            upper, outline, dash = f"{upper} ?", theme.ink, "dotted"
    return {
        "fill": hexadecimal(fill),
        "outline": outline,
        "dash": dash,
        "upper": upper,
        "lower": lower,
        "text": theme.ink if fill == theme.paper else text_on(fill),
        "weight": 3 if cell["baseline"] else 1.4,
    }


def _bare(ratio: float, effect: Row) -> str:
    """A ratio as percent without the sign; one decimal when the interval is narrow."""
    if not 1e-4 <= ratio <= 1e4:
        return ">1,000,000" if ratio > 1 else "<0.01"
    if not 0.1 <= ratio < 10:
        return numbers.significant(100 * ratio)
    return f"{100 * ratio:.{numbers.decimals(effect['low'], effect['high']) - 2}f}"


def _percent(ratio: float, effect: Row) -> str:
    return f"{_bare(ratio, effect)} %"


def _squares(
    rows: list[dict[str, Any]],
    order: tuple[list[str], list[str]],
    axes: tuple[str, str | None],
    heading: str,
    theme: Theme,
) -> dict[str, Any]:
    """One chart of squares with their text; `order` has the columns and the rows (from the top)."""
    import altair as alt

    # A condition need not have every level.
    columns = [name for name in order[0] if any(row["x"] == name for row in rows)]
    lines = [name for name in order[1] if any(row["y"] == name for row in rows)]
    each = max(84, min(WIDEST_SQUARE, 600 // max(1, len(columns))))
    slanted = max(map(len, columns)) * LETTER > each
    short_x, short_y = short_names(columns, 44 if slanted else 18), short_names(lines, 44)
    data = inline_data([row | {"x": short_x[row["x"]], "y": short_y[row["y"]]} for row in rows])
    tilt: dict[str, Any] = {"labelAngle": -25, "labelAlign": "right", "labelLimit": 0} if slanted else {"labelAngle": 0}
    x = alt.X(
        "x:N",
        sort=list(short_x.values()),
        title=axes[0],
        axis=alt.Axis(orient="bottom", domain=False, ticks=False, labelPadding=6, **tilt),
        scale=alt.Scale(paddingInner=0.05, paddingOuter=0.03),
    )
    y = alt.Y(
        "y:N",
        sort=list(short_y.values()),
        title=axes[1],
        axis=alt.Axis(domain=False, ticks=False, labelPadding=8),
        scale=alt.Scale(paddingInner=0.07, paddingOuter=0.04),
    )
    base = alt.Chart(data).encode(x=x, y=y)
    outlined: dict[str, Any] = {
        "fill": alt.Fill("fill:N", scale=None),
        "stroke": alt.Stroke("outline:N", scale=None),
        "strokeWidth": alt.StrokeWidth("weight:Q", scale=None, legend=None),
    }
    decided = base.transform_filter("datum.dash == 'solid'").mark_rect(cornerRadius=3).encode(**outlined)
    undecided = base.transform_filter("datum.dash == 'dotted'").mark_rect(cornerRadius=3, strokeDash=[2, 2.5])
    colour = alt.Color("text:N", scale=None)
    upper = base.mark_text(fontSize=14, fontWeight=600, dy=-7).encode(text="upper:N", color=colour)
    lower = base.mark_text(fontSize=10.5, dy=11).encode(text="lower:N", color=colour)
    layers = (decided, undecided.encode(**outlined), upper, lower)
    return layered(layers, width=each * len(columns), height=SQUARE * len(lines), title=heading)
