"""Scales of charts and their axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from octavo.report import svg
from octavo.report.chart_colours import Theme

# Values where an axis has a tick, each with its label.
Ticks = Sequence[tuple[float, str]]

_TICK, _GAP = 5, 8
_LABEL = 12


@dataclass(frozen=True)
class Scale:
    """Where values are between two pixels.

    >>> Scale(0, 10, 100, 200)(5), Scale(1, 100, 0, 50, log=True)(10)
    (150.0, 25.0)
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def tick_step(low: float, high: float, count: int) -> float:
    """A round step (1, 2 or 5 times a power of ten) that gives about so many ticks.

    >>> tick_step(0, 7.99, 4), tick_step(0, 60, 4)
    (2.0, 20.0)
    """
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    factor = next((f for f, most in ((1, 2**0.5), (2, 10**0.5), (5, 50**0.5)) if raw / power < most), 10)
    return factor * power


def rounded_up(high: float, count: int = 10) -> float:
    """The end of an axis from zero: a whole number of round steps.

    >>> rounded_up(7.99), rounded_up(1234.5)
    (8.0, 1300.0)
    """
    step = tick_step(0, high, count)
    return math.ceil(high / step - 1e-9) * step


def linear_ticks(low: float, high: float, count: int, *, least: float = 0, short: bool = False) -> Ticks:
    """About so many round values between two, not closer than `least`; `short`: with k, M and G for thousands.

    >>> linear_ticks(0, 1, 2), linear_ticks(0, 20_000, 2, short=True)
    ([(0.0, '0.0'), (0.5, '0.5'), (1.0, '1.0')], [(0.0, '0'), (10000.0, '10k'), (20000.0, '20k')])
    """
    step = max(least, tick_step(low, high, count))
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    values = [round(n * step, places + 1) for n in numbers]
    return [(value, _thousands(value) if short else f"{value:,.{places}f}") for value in values]


def _thousands(value: float) -> str:
    power = min(5, int(math.log(abs(value), 1000) + 1e-9)) if abs(value) >= 1 else 0
    return f"{value / 1000**power:g}{['', 'k', 'M', 'G', 'T', 'P'][power]}"


def labels_width(ticks: Ticks) -> float:
    """What the labels of an axis at the left take, with their ticks."""
    return max((svg.text_width(label, _LABEL) for _, label in ticks), default=0.0) + _TICK + 4


def axis_below(
    scale: Scale, ticks: Ticks, y: float, theme: Theme, *, title: str = "", grid_to: float | None = None
) -> str:
    """A horizontal axis: of labels that would overlap the first ones; grid lines up to `grid_to`."""
    marks = [scale(value) for value, _ in ticks]
    lines = [svg.line(x, y, x, y + _TICK) for x in marks] + [svg.line(scale.start, y, scale.end, y)]
    if grid_to is not None:
        lines += [svg.line(x, grid_to, x, y) for x in marks]
    labels: list[str] = []
    free = -math.inf
    for x, (_, label) in zip(marks, ticks, strict=True):
        width = svg.text_width(label, _LABEL)
        left, anchor = x - width / 2, "middle"
        if x < scale.start + 1:
            left, anchor = x, "start"
        elif x > scale.end - 1:
            left, anchor = x - width, "end"
        if left >= free:
            labels.append(svg.text(x, y + _TICK + 11, label, _LABEL, text_anchor=anchor))
            free = left + width + _GAP
    named = svg.text((scale.start + scale.end) / 2, y + 35, title, fill=theme.soft, text_anchor="middle")
    return (
        svg.group(lines, stroke=theme.line, fill="none") + svg.group(labels, fill=theme.ink) + (named if title else "")
    )


def axis_left(
    scale: Scale, ticks: Ticks, x: float, right: float, theme: Theme, *, title: str = "", bare: bool = False
) -> str:
    """A vertical axis with grid lines to the right end of the chart; `bare`: without a line of its own."""
    marks = [scale(value) for value, _ in ticks]
    lines = [svg.line(x - _TICK, y, right, y) for y in marks]
    if not bare:
        lines.append(svg.line(x, scale.start, x, scale.end))
    labels = (
        svg.text(x - _TICK - 3, y + 4, label, text_anchor="end") for y, (_, label) in zip(marks, ticks, strict=True)
    )
    place = f"translate({svg.number(x - labels_width(ticks) - 6)},{svg.number((scale.start + scale.end) / 2)})"
    named = svg.text(0, 0, title, fill=theme.soft, text_anchor="middle", transform=f"{place}rotate(-90)")
    return (
        svg.group(lines, stroke=theme.line, fill="none") + svg.group(labels, fill=theme.ink) + (named if title else "")
    )
