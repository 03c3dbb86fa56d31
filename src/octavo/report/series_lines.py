"""Series as the lines of a chart: the style of each cell's lines, their unit and number of points."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo.report import numbers
from octavo.report.chart_colours import PLAIN, ramp
from octavo.report.document import Document, Row, clean, clip, compared, levels

# A line has at most so many points: one in two pixels or so; 30 lines in 12 panels stay below a megabyte.
MOST_POINTS = 120
# A last interval is as long as it happens to be; the server's statistics of the second before are counted in it.
WHOLE_INTERVAL = 0.9
# The second way to tell cells apart.
DASHES: tuple[tuple[int, ...], ...] = ((), (5, 2), (2, 2), (8, 2, 2, 2))


@dataclass(frozen=True)
class LineStyle:
    """How a cell's lines look."""

    label: str
    colour: str
    dash: tuple[int, ...]


@dataclass(frozen=True)
class ChartLine:
    """One trial in a panel: moments in seconds, values in the unit of the panel."""

    trial: int
    look: LineStyle
    seconds: Sequence[float]
    values: Sequence[float]


def line_styles(document: Document) -> dict[str, LineStyle]:
    """The style of each cell's lines: baselines neutral, the A/A control too but dashed, each label with its own
    colour.

    With more labels than colours, a line's colour shows only the level of the first compared factor.
    """
    cells: list[Row] = document["cells"]
    neutral = {str(cell["label"]) for cell in cells if cell["baseline"]}
    labels = [label for label in dict.fromkeys(str(cell["label"]) for cell in cells) if label not in neutral]
    factor = next(iter(compared(document)), None)
    if len(labels) < len(PLAIN.cells) or factor is None:
        name_of = {cell["id"]: str(cell["label"]) for cell in cells}
        colours = {label: PLAIN.cells[n % len(PLAIN.cells)] for n, label in enumerate(labels)}
    else:
        name_of = {cell["id"]: str(cell["levels"].get(factor)) for cell in cells}
        labels = levels(document, factor)
        colours = dict(zip(labels, ramp(PLAIN, len(labels)), strict=True))
    dashes = {label: DASHES[n % len(DASHES)] for n, label in enumerate(labels)}
    found: dict[str, LineStyle] = {}
    for cell in cells:
        label, name = clip(clean(cell["label"]), 30), name_of[cell["id"]]
        if cell["baseline"]:
            found[cell["id"]] = LineStyle(f"{label} (baseline)", PLAIN.ink, ())
        elif cell["control"]:
            found[cell["id"]] = LineStyle(f"{label} (A/A control)", PLAIN.ink, DASHES[2])
        else:
            found[cell["id"]] = LineStyle(clip(clean(name), 30), colours[name], dashes[name])
    return found


def lines_of(
    rows: Sequence[Row], metric: str, cell_of: Mapping[int, str], looks: Mapping[str, LineStyle]
) -> tuple[list[ChartLine], str]:
    """The lines of a figure, the baselines' below the others, and their unit."""
    found: list[ChartLine] = []
    unit, factor = "", None
    mine = [row for row in rows if row["metric"] == metric and row["item"] is None and row["seconds"]]
    highest = max((value for row in mine for value in row["values"] if math.isfinite(value)), default=0.0)
    for row in mine:
        factor, unit = scale_of(row["unit"], highest)
        count = whole_intervals(row["seconds"])
        points = [
            (second, value * factor)
            for second, value in zip(row["seconds"][:count], row["values"][:count], strict=True)
            if math.isfinite(value)
        ]
        if points:
            seconds, values = zip(*points, strict=True)
            found.append(ChartLine(row["trial"], looks[cell_of[row["trial"]]], *thin(seconds, values, MOST_POINTS)))
    return sorted(found, key=lambda line: line.look.colour != PLAIN.ink), unit


def whole_intervals(seconds: Sequence[float]) -> int:
    """How many moments end an interval as long as the others; the last one may not.

    >>> whole_intervals([1.0, 2.0, 3.0, 3.07]), whole_intervals([1.0, 2.0, 3.0]), whole_intervals([0.4])
    (3, 3, 1)
    """
    if len(seconds) < 2:
        return len(seconds)
    steps = [now - then for then, now in zip([0.0, *seconds], seconds, strict=False)]
    return len(seconds) - (steps[-1] < WHOLE_INTERVAL * statistics.median(steps[:-1]))


def thin(seconds: Sequence[float], values: Sequence[float], most: int) -> tuple[list[float], list[float]]:
    """At most so many points: means of neighbours, each at the end of its interval.

    >>> thin([1, 2, 3, 4, 5], [1.0, 3.0, 5.0, 7.0, 8.0], 3)
    ([2, 4, 5], [2.0, 6.0, 8.0])
    """
    size = max(1, math.ceil(len(seconds) / most))
    starts = range(0, len(seconds), size)
    means = [statistics.fmean(values[start : start + size]) for start in starts]
    return [seconds[min(start + size, len(seconds)) - 1] for start in starts], means


def scale_of(unit: str, highest: float) -> tuple[float, str]:
    """The factor by which values are multiplied, and their unit afterwards: PostgreSQL's kB, MB and GB; percent.

    >>> scale_of("bytes", 3e6), scale_of("kB/s", 100.0), scale_of("fraction", 0.3), scale_of("1/s", 12)
    ((9.5367431640625e-07, 'MB'), (1.0, 'kB/s'), (100.0, '%'), (1.0, 'a second'))
    """
    if unit == "fraction":
        return 100.0, "%"
    size = re.fullmatch(r"(bytes|kB)(/s)?", unit)
    if size is None:
        return 1.0, {"1": "", "1/s": "a second"}.get(unit, unit)
    basis = 1024 if size[1] == "kB" else 1
    power = min(len(numbers.BYTE_UNITS) - 1, max(0, math.floor(math.log(max(1.0, highest * basis), 1024))))
    return basis / 1024**power, numbers.BYTE_UNITS[power] + (size[2] or "")
