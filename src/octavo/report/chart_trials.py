"""The chart of single trials beside the estimates: ratios to the baseline trial of the same round."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap

from octavo.report import numbers, svg
from octavo.report.axes import Scale, axis_below
from octavo.report.chart_colours import Theme
from octavo.report.chart_style import Chart, heading, short_names, ticks
from octavo.report.document import Document, Row, clip, conditions, effects_by_key, main_cells, noise, title
from octavo.report.memo import once
from octavo.report.plain import capital, condition_text
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
_AXIS = "ratio to the baseline, log scale"


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
    rows = [row for condition in chosen if (row := _rows(document, condition, effects, found, narrow))]
    if not rows:
        return None
    left = 12 + max(svg.text_width(name) for one in rows for name in one.names.values())
    width = NARROW if narrow else WIDTH
    scale = Scale(*span, left, left + width, log=True)
    figures = max((svg.text_width(e.text) for one in rows for e in one.estimates), default=0.0)
    parts: list[str] = []
    y = 0.0
    for one in rows:
        panel, height = _panel(document, one, loads, scale, y, theme, narrow=narrow, last=one is rows[-1])
        parts.append(panel)
        y += height
    name = clip(title(document, primary), 40)
    what = f"{name} of each trial relative to the baseline trial of its round."
    right = 16 if narrow else 24 + figures
    return Chart("".join(parts), scale.end + right, y, "points-narrow" if narrow else "points", what)


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


@dataclass(frozen=True)
class _Estimate:
    """A cell's ratio, the ends of its interval, and the text beside it."""

    cell: str
    ratio: float | None
    low: float | None
    high: float | None
    text: str

    def beyond(self, scale: Scale) -> list[tuple[float, str]]:
        """An arrow at each end of the axis that the estimate or its interval passes."""
        ends = [end for end in (self.ratio, self.low, self.high) if end]
        passed = [(scale.start, "◂")] if ends and min(ends) < scale.low else []
        return passed + ([(scale.end, "▸")] if ends and max(ends) > scale.high else [])


@dataclass(frozen=True)
class _Rows:
    """What one panel shows: the cells' names by id, from the top, with their trials and estimates."""

    condition: str
    names: dict[str, str]
    trials: list[TrialPoint]
    estimates: list[_Estimate]


def _rows(
    document: Document, condition: str, effects: dict[str, Row], found: list[TrialPoint], narrow: bool
) -> _Rows | None:
    """The rows of a condition; None when no trial and no estimate would be in them."""
    shown = [cell for cell in main_cells(document, condition)[0] if not cell["baseline"]]
    labels = {cell["id"]: f"{cell['label']}{' (A/A)' if cell['control'] else ''}" for cell in shown}
    short = short_names(labels.values(), 18 if narrow else 30)
    mine = [point for point in found if point.cell in labels]
    if not mine and not any(cell in effects and effects[cell]["ratio"] for cell in labels):
        return None
    missing = absent(document)
    estimates = [_estimate(cell, effects.get(cell), missing.get(cell, "no estimate")) for cell in labels]
    return _Rows(condition, {cell: short[label] for cell, label in labels.items()}, mine, estimates)


def _estimate(cell: str, effect: Row | None, missing: str) -> _Estimate:
    if effect is None or effect["ratio"] is None:
        return _Estimate(cell, None, None, None, missing)
    low, high = effect["low"], effect["high"]
    return _Estimate(cell, effect["ratio"], low, high, numbers.ratio_interval(effect["ratio"], low, high))


def _panel(
    document: Document, rows: _Rows, loads: list[str], scale: Scale, y: float, theme: Theme, *, narrow: bool, last: bool
) -> tuple[str, float]:
    """A row a cell with its trials above and its estimate with the interval below; and how high all that is."""
    words = clip(capital(condition_text(rows.condition)), 80) or "All trials"
    lines = wrap(words, _LINE) if narrow else [words]
    step = 34 if len(rows.names) <= 12 else 22
    top = y + 18 * len(lines) + 8
    bottom = top + step * len(rows.names)
    row_of = {cell: top + step * (n + 0.5) for n, cell in enumerate(rows.names)}
    floor = noise(document, rows.condition)
    band = floor["floor"] if floor is not None else None
    labels = (svg.text(scale.start - 10, row_of[c] + 4, name, text_anchor="end") for c, name in rows.names.items())
    grid = (svg.line(scale.start, at, scale.end, at) for at in row_of.values()) if len(rows.names) > 1 else ()
    parts = [
        heading(0, y + 18 * len(lines) - 4, lines, theme),
        _band(scale, band, top, bottom, theme) if band else "",
        svg.group(grid, stroke=theme.line),
        axis_below(scale, _ticks(scale, narrow), bottom, theme, title=_AXIS if last else "", grid_to=top),
        svg.line(scale(1), top, scale(1), bottom, stroke=theme.ink),
        svg.group(labels, fill=theme.ink),
        *_marks(rows.trials, loads, scale, row_of, step // 6, theme),
        *_intervals(rows.estimates, scale, row_of, step // 4, theme),
    ]
    if not narrow:
        figures = (svg.text(scale.end + 12, row_of[one.cell] + 4, one.text) for one in rows.estimates)
        parts.append(svg.group(figures, fill=theme.ink))
    return "".join(parts), bottom + (44 if last else 32) - y


def _ticks(scale: Scale, narrow: bool) -> list[tuple[float, str]]:
    marked = ticks(scale.low, scale.high)
    while narrow and len(marked) > 5:  # 1 stays
        marked = marked[marked.index(1.0) % 2 if 1.0 in marked else 0 :: 2]
    places = 3 if any(round(v, 2) != v for v in marked) else 2
    return [(v, f"{v:.{places}f}" if scale.high / scale.low <= 4 else f"{v:g}") for v in marked]


def _band(scale: Scale, floor: float, top: float, bottom: float, theme: Theme) -> str:
    low, high = (scale(max(scale.low, min(scale.high, end))) for end in (1 / (1 + floor), 1 + floor))
    return svg.element("rect", x=low, y=top, width=high - low, height=bottom - top, fill=theme.band)


def _marks(
    trials: list[TrialPoint], loads: list[str], scale: Scale, row_of: dict[str, float], above: float, theme: Theme
) -> Iterator[str]:
    """The trials of each load in a colour and a shape of their own; those beyond the axis are not drawn."""
    for number, load in enumerate(loads):
        shape = svg.SHAPES[number % len(svg.SHAPES)]
        mine = (
            svg.symbol(shape, scale(point.value), row_of[point.cell] - above, 46)
            for point in trials
            if point.load == load and scale.low <= point.value <= scale.high
        )
        yield svg.group(mine, stroke=theme.loads[number % len(theme.loads)], stroke_width="1.6", fill="none")


def _intervals(
    estimates: list[_Estimate], scale: Scale, row_of: dict[str, float], below: float, theme: Theme
) -> Iterator[str]:
    bars: list[str] = []
    arrows: list[str] = []
    for one in estimates:
        y = row_of[one.cell] + below
        if one.low and one.high and one.low < scale.high and one.high > scale.low:
            bars.append(svg.line(scale(max(scale.low, one.low)), y, scale(min(scale.high, one.high)), y))
        if one.ratio and scale.low <= one.ratio <= scale.high:
            bars.append(svg.line(scale(one.ratio), y - 4.5, scale(one.ratio), y + 4.5))
        arrows += [svg.text(x, y + 4.5, sign, 13) for x, sign in one.beyond(scale)]
    yield svg.group(bars, stroke=theme.ink, stroke_width="2.4")
    yield svg.group(arrows, fill=theme.ink, text_anchor="middle")
