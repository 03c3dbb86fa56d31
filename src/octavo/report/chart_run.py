"""Charts over the order of the run: the primary metric of each trial, and what drift is in it."""

import math
from collections.abc import Mapping, Sequence

from octavo.report import svg
from octavo.report.axes import Scale, Ticks, axis_below, axis_left, labels_width, linear_ticks
from octavo.report.chart_colours import Theme, ramp
from octavo.report.chart_style import Chart, heading, short_names, ticks
from octavo.report.document import Document, clip, compared, conditions, levels, title, unit, words
from octavo.report.numbers import BYTE_UNITS, SYMBOLS
from octavo.report.plain import capital, condition_text
from octavo.report.trials import TrialPoint, drift_points, measured_points, ordered

WIDTH = 650
MANY = 8
MOST_NAMES = 16
MOST_PANELS = 6
CROWD = 300
ORDER = "order in the run (trials)"
# What a mark of a legend takes, and the room between its names, in pixels.
SYMBOL, BETWEEN = 16, 18


def _starts(document: Document) -> list[tuple[float, str]]:
    """Where rounds start on the order axis (half a trial before their first trial), with their numbers.

    Of many rounds some are named, so that the names do not run into each other.
    """
    first: dict[int, int] = {}
    for order, trial in ordered(document):
        first.setdefault(trial["round"], order)
    every = max(1, math.ceil(len(first) / MOST_NAMES))
    named = list(first.items())[::every]
    return [(order - 0.5, f"round {n}" if len(named) < MANY else str(n)) for n, order in named]


def _run_axis(document: Document, left: float) -> tuple[Scale, Ticks]:
    last = max(len(document["trials"]), 2)
    return Scale(0.5, last + 0.5, left, left + WIDTH), linear_ticks(0.5, last + 0.5, 10, least=1)


def _rounds(document: Document, x: Scale, top: float, bottom: float, theme: Theme) -> str:
    starts = _starts(document)
    rules = (svg.line(x(at), top, x(at), bottom) for at, _ in starts)
    names = (svg.text(x(at) + 4, top - 4, name, 11) for at, name in starts)
    return svg.group(rules, stroke=theme.line) + svg.group(names, fill=theme.soft)


def _dot(count: int) -> float:
    """The area of a mark where so many share a panel."""
    return 52 if count <= CROWD else 18


def over_time(document: Document, theme: Theme) -> Chart | None:
    """The primary metric of every measured trial over the order of the run, one panel for each condition, of many the
    first MOST_PANELS."""
    found = measured_points(document)
    if not found:
        return None
    group, title_of_group, names = _groups(document)
    baselines = {cell["id"] for cell in document["cells"] if cell["baseline"]}
    others = [name for name in names if name not in {group[cell] for cell in baselines}]
    colours = dict.fromkeys(names, theme.ink) | {n: theme.cells[i % len(theme.cells)] for i, n in enumerate(others)}
    if title_of_group is not None:
        colours = dict(zip(names, ramp(theme, len(names)), strict=True))
    colour_of = {cell: colours.get(named, theme.ink) for cell, named in group.items()}
    divisor, name = _scaled(document, document["run"]["primary_metric"], max(abs(p.value) for p in found))
    seen = {point.condition for point in found}
    panels = [
        ([p for p in found if p.condition == condition], clip(capital(condition_text(condition)), 80) or "All trials")
        for condition in conditions(document)
        if condition in seen
    ][:MOST_PANELS]
    ends = [around([p.value / divisor for p in points]) for points, _ in panels]
    ticks_of = [linear_ticks(low, high, 5) for low, high in ends]
    left = 24 + max(map(labels_width, ticks_of))
    x, across = _run_axis(document, left)
    marks = [(colours[n], "circle", n) for n in names]
    drawing, y = _legend(marks, left, theme, title=title_of_group or "", filled=True)
    for (points, condition), (low, high), up in zip(panels, ends, ticks_of, strict=True):
        top, bottom = y + 42, y + 42 + 190
        scale = Scale(low, high, bottom, top)
        drawing += (
            heading(left, y + 16, [condition], theme)
            + axis_left(scale, up, left, x.end, theme, title=name)
            + axis_below(x, across, bottom, theme, title=ORDER)
            + _rounds(document, x, top, bottom, theme)
            + _trials(points, divisor, x, scale, baselines, colour_of, theme)
        )
        y = bottom + 56
    return Chart(drawing, x.end + 16, y - 12, "run", f"{name} of each trial over the order of the run.")


def _trials(
    points: Sequence[TrialPoint],
    divisor: float,
    x: Scale,
    y: Scale,
    baselines: set[str],
    colour_of: Mapping[str, str],
    theme: Theme,
) -> str:
    """A dot a trial that counts and a cross for each other; a line joins the baseline's."""
    place = {p.trial: (x(p.order), y(p.value / divisor)) for p in points}
    counted = [p for p in points if p.used]
    joined = [place[p.trial] for p in sorted(counted, key=lambda p: p.order) if p.cell in baselines]
    thin = "1.2" if len(points) <= CROWD else "0.6"
    line = svg.polyline(joined, stroke=theme.ink, fill="none", stroke_width=thin) if joined else ""
    dots: dict[str, list[str]] = {}
    for p in counted:
        mark = svg.symbol("circle", *place[p.trial], _dot(len(points)))
        dots.setdefault(colour_of.get(p.cell, theme.ink), []).append(mark)
    crosses = (svg.symbol("x", *place[p.trial], 230) for p in points if not p.used)
    return (
        line
        + "".join(svg.group(marks, fill=colour) for colour, marks in dots.items())
        + svg.group(crosses, stroke=theme.ink, fill="none", stroke_width="1.8")
    )


def _legend(
    marks: Sequence[tuple[str, str, str]], left: float, theme: Theme, *, title: str = "", filled: bool
) -> tuple[str, float]:
    """Colour, shape and name of each mark, in columns as wide as the widest name; and where they end."""
    wide = SYMBOL + BETWEEN + max(svg.text_width(name) for _, _, name in marks)
    columns = max(1, int(WIDTH // wide))
    y = 28 if title else 10
    parts = [svg.text(left, 12, title, fill=theme.soft)] if title else []
    for n, (colour, shape, name) in enumerate(marks):
        at, row = left + wide * (n % columns), y + 18 * (n // columns)
        look = {"fill": colour} if filled else {"stroke": colour, "stroke_width": "1.6", "fill": "none"}
        parts.append(svg.group([svg.symbol(shape, at + 6, row, 52)], **look))
        parts.append(svg.text(at + SYMBOL, row + 4, name, fill=theme.ink))
    return "".join(parts), y + 18 * math.ceil(len(marks) / columns) + 8.0


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


def _scaled(document: Document, metric: str, most: float) -> tuple[float, str]:
    """What the values of an axis are divided by, and its title, with the unit where the title leaves it open."""
    its, what = unit(document, metric) or "", title(document, metric)
    if its == "bytes":
        power = min(len(BYTE_UNITS) - 1, int(math.log(max(most, 1), 1024)))
        return 1024.0**power, f"{clip(what, 40)}, {BYTE_UNITS[power]}"
    if its in SYMBOLS or f"({its})" in what:
        return 1.0, clip(what, 44)
    return 1.0, f"{clip(what, 40)}, {its}"


def around(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis around the values, and not below zero where none of them is.

    >>> around([10.0, 20.0]), around([0.1, 100.0]), around([0.0])
    ((9.2, 20.8), (0.0, 107.992), (0.0, 1.0))
    """
    low, high = min(values), max(values)
    pad = 0.08 * (high - low) or 0.08 * abs(high) or 1.0
    return max(0.0, low - pad) if low >= 0 else low - pad, high + pad


def _named(condition: str) -> str:
    return condition_text(condition) or "all trials"


def drift(document: Document, theme: Theme) -> Chart | None:
    """Every used trial relative to its own cell's geometric mean, all conditions together.

    More conditions than there are colours are not told apart.
    """
    found = drift_points(document)
    if not found:
        return None
    low, high = min(p.value for p in found) / 1.005, max(p.value for p in found) * 1.005
    up = [(value, f"{value:.2f}") for value in ticks(low, high)]
    left = 24 + labels_width(up)
    x, across = _run_axis(document, left)
    kinds = short_names([_named(condition) for condition in conditions(document)], 44)
    looks = dict(zip(kinds.values(), zip(theme.loads, svg.SHAPES, strict=True), strict=False))
    legend, y = "", 0.0
    if apart := len(kinds) <= len(looks):
        legend, y = _legend([(*look, name) for name, look in looks.items()], left, theme, filled=False)
    top, bottom = y + 22, y + 22 + 170
    scale = Scale(low, high, bottom, top, log=True)
    drawing = (
        legend
        + axis_left(scale, up, left, x.end, theme, title="ratio to the cell's own mean")
        + axis_below(x, across, bottom, theme, title=ORDER)
        + _rounds(document, x, top, bottom, theme)
        + svg.line(left, scale(1), x.end, scale(1), stroke=theme.ink)
    )
    size = _dot(len(found)) * 0.8
    if apart:
        for name, (colour, shape) in looks.items():
            mine = (p for p in found if kinds[_named(p.condition)] == name)
            marks = (svg.symbol(shape, x(p.order), scale(p.value), size) for p in mine)
            drawing += svg.group(marks, stroke=colour, stroke_width="1.5", fill="none")
    else:
        drawing += svg.group((svg.symbol("circle", x(p.order), scale(p.value), size) for p in found), fill=theme.soft)
    what = "Each trial relative to its own cell's mean over the order of the run."
    return Chart(drawing, x.end + 16, bottom + 44, "drift", what)
