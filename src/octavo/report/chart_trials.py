"""The chart of single trials beside the estimates: ratios to the baseline trial of the same round."""

import math
from textwrap import wrap
from typing import Any

from octavo.plan.condition_text import capital
from octavo.report import numbers
from octavo.report.chart_colours import Theme
from octavo.report.chart_style import (
    SHAPES,
    Chart,
    layered,
    mark,
    name,
    number,
    short_names,
    stacked,
    tick_format,
    ticks,
)
from octavo.report.document import Document, Row, clip, conditions, effects_by_key, main_cells, noise, title
from octavo.report.memo import once
from octavo.report.plain import condition_text
from octavo.report.run_history import absent
from octavo.report.trials import TrialPoint, ratio_points

WIDTH, NARROW = 520, 230
# Letters of a heading's line on a narrow chart.
_LINE = 44
# Rows of all panels together.
MOST_ROWS = 120
# The axis holds so many of the estimates; what lies farther out by this factor is an arrow at its end.
MOST_OF = 0.85
FAR = 1.6


def points(document: Document, theme: Theme, *, narrow: bool = False) -> Chart | None:
    """Every counted trial as a ratio to the baseline trial of its round; None when there is no ratio yet.

    A `narrow` one is for a telephone, which has the estimates in the table below: here they have no figures.
    """
    primary = document["run"]["primary_metric"]
    effects = {key[0]: row for key, row in effects_by_key(document).items() if key[1:] == (primary, None)}
    found = ratio_points(document)
    loads = sorted({point.load for point in found}, key=lambda load: (len(load), load)) or ["load 1"]
    chosen = drawn_conditions(document)
    span = _common_span(document, chosen, effects, found)
    panels = [_panel(document, c, effects, found, loads, span, theme, narrow) for c in chosen]
    drawn = [panel for panel in panels if panel]
    if not drawn:
        return None
    for panel in drawn[:-1]:
        for layer in panel["layer"]:
            layer["encoding"]["x"].pop("title", None)
            layer["encoding"]["x"] |= {"title": None} if "field" in layer["encoding"]["x"] else {}
    spec = stacked(drawn, 20, resolve={"scale": {"color": "shared", "shape": "shared"}})
    what = f"{clip(title(document, primary), 40)} of each trial relative to the baseline trial of its round."
    return Chart(spec, "points-narrow" if narrow else "points", what)


@once
def drawn_conditions(document: Document) -> list[str]:
    """The conditions that have a panel: of many the first ones, as many as have MOST_ROWS rows."""
    chosen: list[str] = []
    rows = 0
    for condition in conditions(document):
        rows += len(main_cells(document, condition)[0])
        if chosen and rows > MOST_ROWS:
            break
        chosen.append(condition)
    return chosen


def _common_span(
    document: Document, chosen: list[str], effects: dict[str, Row], found: list[TrialPoint]
) -> tuple[float, float]:
    """The ends of the axis of every panel: one scale, so that conditions can be compared."""
    mine = {cell["id"] for c in chosen for cell in main_cells(document, c)[0] if not cell["baseline"]}
    values = [point.value for point in found if point.cell in mine]
    own = [effects[cell] for cell in mine if cell in effects and effects[cell]["ratio"]]
    ends = [row[end] for row in own for end in ("low", "high") if row[end]]
    return _span([*values, *ends, *(row["ratio"] for row in own)], [row["ratio"] for row in own])


def _span(shown: list[float], estimates: list[float]) -> tuple[float, float]:
    """The ends of the axis: of all that is shown, unless a few estimates or long intervals would squeeze the rest."""
    whole = max(abs(math.log(value)) for value in shown) if shown else 0.0
    inner = sorted(abs(math.log(value)) for value in estimates)
    most = inner[math.ceil(MOST_OF * len(inner)) - 1] if inner else whole
    edge = max(most * FAR, math.log(1.02))
    low, high = min([*shown, 0.98]) / 1.01, max([*shown, 1.02]) * 1.01
    return (low, high) if whole <= FAR * edge else (max(low, math.exp(-edge)), min(high, math.exp(edge)))


def _panel(
    document: Document,
    condition: str,
    effects: dict[str, Row],
    found: list[TrialPoint],
    loads: list[str],
    span: tuple[float, float],
    theme: Theme,
    narrow: bool,
) -> dict[str, Any] | None:
    """One condition: a row a cell with its trials above and its estimate with the interval below; None when empty."""
    rows = [cell for cell in main_cells(document, condition)[0] if not cell["baseline"]]
    mine = {cell["id"] for cell in rows}
    values = [point.value for point in found if point.cell in mine]
    own = [effects[cell["id"]] for cell in rows if cell["id"] in effects and effects[cell["id"]]["ratio"]]
    if not values and not own:
        return None
    labels = {cell["id"]: f"{cell['label']}{' (A/A)' if cell['control'] else ''}" for cell in rows}
    short = short_names(labels.values(), 18 if narrow else 30)
    named = {cell: short[label] for cell, label in labels.items()}
    step = 34 if len(rows) <= 12 else 22
    axis = {"domain": False, "ticks": False, "labelPadding": 8, "grid": len(rows) > 1}
    y = name("cell", sort=list(short.values()), title=None, axis=axis)
    marked = ticks(*span)
    while narrow and len(marked) > 5:  # 1 stays
        marked = marked[marked.index(1.0) % 2 if 1.0 in marked else 0 :: 2]
    scale = {"type": "log", "domain": list(span), "nice": False}
    labels_of = {"values": marked, "format": tick_format(marked, *span)}

    def x(field: str) -> dict[str, Any]:
        return number(field, scale=scale, axis=labels_of, title="ratio to the baseline, log scale")

    high = {"field": "high"}
    layers: list[dict[str, Any]] = []
    floor = noise(document, condition)
    if floor is not None and floor["floor"]:
        edges = {"low": max(span[0], 1 / (1 + floor["floor"])), "high": min(span[1], 1 + floor["floor"])}
        layers.append(mark("rect", [edges], {"x": x("low"), "x2": high}, color=theme.band))
    layers.append(mark("rule", [{"one": 1}], {"x": x("one")}, color=theme.ink))
    trials = [
        {"cell": named[p.cell], "ratio": p.value, "load": p.load}
        for p in found
        if p.cell in named and span[0] <= p.value <= span[1]
    ]
    marks = range(len(loads))
    colours = {"domain": loads, "range": [theme.loads[i % len(theme.loads)] for i in marks]}
    shapes = {"domain": loads, "range": [SHAPES[i % len(SHAPES)] for i in marks]}
    load = {"color": name("load", scale=colours, legend=None), "shape": name("load", scale=shapes, legend=None)}
    dots = {"x": x("ratio"), "y": y} | load
    layers.append(mark("point", trials, dots, size=46, strokeWidth=1.6, yOffset=-step // 6))
    missing = absent(document)
    estimates = [_estimate(named[c["id"]], effects.get(c["id"]), missing.get(c["id"], "no estimate")) for c in rows]
    inside = [row for row in estimates if row["ratio"] and span[0] <= row["ratio"] <= span[1]]
    bounds = [
        row | {"low": max(span[0], row["low"]), "high": min(span[1], row["high"])}
        for row in estimates
        if row["low"] and row["high"] and row["low"] < span[1] and row["high"] > span[0]
    ]
    lower = step // 4
    ends = {"x": x("low"), "x2": high, "y": y}
    layers.append(mark("rule", bounds, ends, strokeWidth=2.4, color=theme.ink, yOffset=lower))
    at = {"x": x("ratio"), "y": y}
    layers.append(mark("tick", inside, at, thickness=2.4, size=9, color=theme.ink, yOffset=lower))
    sign = {"x": x("at"), "y": y, "text": name("sign")}
    arrow = {"fontSize": 13, "color": theme.ink, "dy": lower, "baseline": "middle"}
    layers.append(mark("text", _beyond(estimates, span), sign, **arrow))
    if not narrow:
        figures = {"x": {"value": WIDTH + 12}, "y": y, "text": name("text")}
        layers.append(mark("text", estimates, figures, align="left", fontSize=12, color=theme.ink))
    heading = clip(capital(condition_text(condition)), 80) or "All trials"
    title: str | list[str] = wrap(heading, _LINE) if narrow else heading
    return layered(layers, width=NARROW if narrow else WIDTH, height=step * len(rows), title=title)


def _estimate(cell: str, effect: Row | None, missing: str) -> dict[str, Any]:
    if effect is None or effect["ratio"] is None:
        return {"cell": cell, "ratio": None, "low": None, "high": None, "text": missing}
    low, high = effect["low"], effect["high"]
    text = numbers.ratio_interval(effect["ratio"], low, high)
    return {"cell": cell, "ratio": effect["ratio"], "low": low, "high": high, "text": text}


def _beyond(estimates: list[dict[str, Any]], span: tuple[float, float]) -> list[dict[str, Any]]:
    """An arrow at each end of the axis that an estimate or its interval passes."""
    found: list[dict[str, Any]] = []
    for row in estimates:
        ends = [row[end] for end in ("ratio", "low", "high") if row[end]]
        if ends and min(ends) < span[0]:
            found.append({"cell": row["cell"], "at": span[0], "sign": "◂"})
        if ends and max(ends) > span[1]:
            found.append({"cell": row["cell"], "at": span[1], "sign": "▸"})
    return found
