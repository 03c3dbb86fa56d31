"""Charts over the order of the run: the primary metric of each trial, and its drift."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from octavo.plan.condition_text import capital
from octavo.report.chart_colours import Theme, ramp
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
from octavo.report.document import Document, clip, compared, conditions, levels, title, unit, words
from octavo.report.numbers import BYTE_UNITS, SYMBOLS
from octavo.report.plain import condition_text
from octavo.report.trials import drift_points, measured_points, ordered

CROSS = "M-0.5,-0.5L0.5,0.5M0.5,-0.5L-0.5,0.5"
WIDTH = 650
MANY = 8
MOST_NAMES = 16
MOST_PANELS = 6
CROWD = 300
# About how wide a letter and a mark of a legend are, in pixels.
LETTER, SYMBOL = 7, 24


def _starts(document: Document) -> list[dict[str, Any]]:
    """Where rounds start on the order axis (half a trial before their first trial), with their numbers.

    Of many rounds some are named, so that the names do not run into each other.
    """
    first: dict[int, int] = {}
    for order, trial in ordered(document):
        first.setdefault(trial["round"], order)
    every = max(1, math.ceil(len(first) / MOST_NAMES))
    named = list(first.items())[::every]
    return [{"at": order - 0.5, "round": f"round {n}" if len(named) < MANY else str(n)} for n, order in named]


def _run_axis(document: Document, field: str = "order") -> dict[str, Any]:
    last = max(len(document["trials"]), 2)
    scale = {"domain": [0.5, last + 0.5], "nice": False}
    axis = {"grid": False, "tickMinStep": 1, "format": "d"}
    return number(field, title="order in the run (trials)", scale=scale, axis=axis)


def _rounds(document: Document, theme: Theme) -> list[dict[str, Any]]:
    starts, at = _starts(document), _run_axis(document, "at")
    words = {"x": at, "y": {"value": -3}, "text": name("round")}
    return [
        mark("rule", starts, {"x": at}, color=theme.line),
        mark("text", starts, words, align="left", dx=4, fontSize=11, color=theme.soft, baseline="bottom"),
    ]


def _dot(count: int) -> float:
    """The area of a mark where so many share a panel."""
    return 52 if count <= CROWD else 18


def over_time(document: Document, theme: Theme) -> Chart | None:
    """The primary metric of every measured trial over the order of the run, one panel for each condition, of many the
    first MOST_PANELS."""
    found = measured_points(document)
    if not found:
        return None
    primary = document["run"]["primary_metric"]
    group, title_of_group, names = _groups(document)
    baselines = {cell["id"] for cell in document["cells"] if cell["baseline"]}
    others = [name for name in names if name not in {group[cell] for cell in baselines}]
    palette = {name: theme.cells[i % len(theme.cells)] for i, name in enumerate(others)}
    colours = {"domain": names, "range": [palette.get(name, theme.ink) for name in names]}
    if title_of_group is not None:
        colours = {"domain": names, "range": ramp(theme, len(names))}
    legend = {"orient": "top", "columns": _columns(names), "symbolLimit": 40}
    colour = name("group", title=title_of_group, scale=colours, legend=legend)
    divisor, what = _scaled(document, primary, max(abs(p.value) for p in found))
    panels: list[dict[str, Any]] = []
    seen = {point.condition for point in found}
    for condition in [c for c in conditions(document) if c in seen][:MOST_PANELS]:
        rows = [
            {"order": p.order, "value": p.value / divisor, "group": group.get(p.cell, "–"), "used": p.used}
            for p in found
            if p.condition == condition
        ]
        line = [
            {"order": p.order, "value": p.value / divisor}
            for p in found
            if p.condition == condition and p.cell in baselines and p.used
        ]
        at = {
            "x": _run_axis(document),
            "y": number("value", title=what, scale=_around(rows), axis={"tickCount": 5}),
        }
        layers = [
            *_rounds(document, theme),
            mark("line", line, at, color=theme.ink, strokeWidth=1.2 if len(rows) <= CROWD else 0.6),
            mark("circle", [r for r in rows if r["used"]], at | {"color": colour}, size=_dot(len(rows)), opacity=1),
            mark(
                "point", [r for r in rows if not r["used"]], at, shape=CROSS, size=230, color=theme.ink, strokeWidth=1.8
            ),
        ]
        heading = {"text": clip(capital(condition_text(condition)), 80) or "All trials", "offset": 22}
        panels.append(layered(layers, width=WIDTH, height=190, title=heading))
    spec = stacked(panels, 24, resolve={"scale": {"color": "shared", "y": "independent"}})
    return Chart(spec, "run", f"{what} of each trial over the order of the run.")


def _groups(document: Document) -> tuple[dict[str, str], str | None, list[str]]:
    """What the colours of the run chart mean: cells, or of many cells the levels of the factor that has the most."""
    labels = {cell["id"]: str(cell["label"]) for cell in document["cells"]}
    factor = max(compared(document), key=lambda factor: len(levels(document, factor)), default=None)
    if len(set(labels.values())) <= MANY or factor is None:
        short = short_names(labels.values(), 28)
        return {cell: short[label] for cell, label in labels.items()}, None, list(short.values())
    short = short_names(levels(document, factor), 20)
    group = {cell["id"]: short.get(str(cell["levels"].get(factor)), "–") for cell in document["cells"]}
    return group, words(factor), list(short.values())


def _columns(names: Sequence[str]) -> int:
    """How many names of a legend fit a line."""
    return max(1, WIDTH // (LETTER * max(map(len, names)) + SYMBOL))


def _scaled(document: Document, metric: str, most: float) -> tuple[float, str]:
    """What the values of an axis are divided by, and its title, with the unit where the title leaves it open."""
    its, what = unit(document, metric) or "", title(document, metric)
    if its == "bytes":
        power = min(len(BYTE_UNITS) - 1, int(math.log(max(most, 1), 1024)))
        return 1024.0**power, f"{clip(what, 40)}, {BYTE_UNITS[power]}"
    if its in SYMBOLS or f"({its})" in what:
        return 1.0, clip(what, 44)
    return 1.0, f"{clip(what, 40)}, {its}"


def _around(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A scale around the values, and not below zero where none of them is."""
    values = [row["value"] for row in rows]
    low, high = min(values), max(values)
    pad = 0.08 * (high - low) or 0.08 * abs(high) or 1.0
    ends = [max(0.0, low - pad) if low >= 0 else low - pad, high + pad]
    return {"domain": ends, "nice": False, "zero": False}


def _named(condition: str) -> str:
    return condition_text(condition) or "all trials"


def drift(document: Document, theme: Theme) -> Chart | None:
    """Every used trial relative to its own cell's geometric mean, all conditions together."""
    found = drift_points(document)
    if not found:
        return None
    kinds = short_names([_named(condition) for condition in conditions(document)], 44)
    rows = [{"order": p.order, "value": p.value, "condition": kinds[_named(p.condition)]} for p in found]
    low, high = min(p.value for p in found) / 1.005, max(p.value for p in found) * 1.005
    domain, marked = list(kinds.values()), ticks(low, high)
    at = {
        "x": _run_axis(document),
        "y": number(
            "value",
            title="ratio to the cell's own mean",
            scale={"type": "log", "domain": [low, high], "nice": False},
            axis={"values": marked, "format": tick_format(marked, low, high)},
        ),
    }
    marks = range(len(domain))
    colours = {"domain": domain, "range": [theme.loads[i % len(theme.loads)] for i in marks]}
    shapes = {"domain": domain, "range": [SHAPES[i % len(SHAPES)] for i in marks]}
    # More conditions than there are colours are not told apart.
    legend = {"orient": "top", "columns": _columns(domain)} if len(domain) <= len(theme.loads) else None
    kind = {
        "color": name("condition", title=None, legend=legend, scale=colours),
        "shape": name("condition", title=None, legend=legend, scale=shapes),
    }
    layers = [
        *_rounds(document, theme),
        mark("rule", [{"one": 1}], {"y": number("one")}, color=theme.ink),
        mark("point", rows, at | kind, size=_dot(len(rows)) * 0.8, strokeWidth=1.5),
    ]
    what = "Each trial relative to its own cell's mean over the order of the run."
    return Chart(layered(layers, width=WIDTH, height=170), "drift", what)
