"""Ratios with their intervals as lines of text, which narrow during a round in slices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

_WIDTH = 41
# The scale reaches so far on both sides of 1 at the least, so that noise does not fill it.
_LEAST = math.log(1.1)
_Z = 1.96


@dataclass(frozen=True, slots=True)
class RatioLine:
    """A cell's ratio to the baseline, with about 95 % from turns alone; loads scatter as well, so it is no verdict. An
    interval without width is none: the turns were of different things."""

    label: str
    ratio: float
    low: float
    high: float

    @property
    def interval(self) -> str:
        """The interval as text; empty where there is none."""
        return "" if self.low == self.high else f"{self.low:.3f} to {self.high:.3f}"

    def __str__(self) -> str:
        """As one of a list in a sentence."""
        return f"{self.label} × {self.ratio:.3f}{f' ({self.interval})' if self.interval else ''}"


@dataclass(slots=True)
class Rounds:
    """Results of finished rounds for a cell: logarithms of its ratio, with their standard errors."""

    ended: dict[tuple[str, str], list[tuple[float, float]]] = field(
        default_factory=dict[tuple[str, str], list[tuple[float, float]]]
    )

    def add(self, condition: str, line: RatioLine) -> None:
        """A round that has ended."""
        self.ended.setdefault((condition, line.label), []).append(_estimate(line))

    def with_now(self, condition: str, line: RatioLine) -> RatioLine:
        """The current round combined with the finished ones, weighted by their errors."""
        estimates = [*self.ended.get((condition, line.label), ()), _estimate(line)]
        known = [(value, error) for value, error in estimates if error > 0]
        if not known:
            mean = math.exp(math.fsum(value for value, _ in estimates) / len(estimates))
            return RatioLine(line.label, mean, mean, mean)
        weight = math.fsum(1 / error**2 for _, error in known)
        mean = math.fsum(value / error**2 for value, error in known) / weight
        half = _Z / math.sqrt(weight)
        return RatioLine(line.label, math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def _estimate(line: RatioLine) -> tuple[float, float]:
    return math.log(line.ratio), math.log(line.high / line.low) / (2 * _Z)


def table(title: str, lines: Sequence[RatioLine], width: int = _WIDTH) -> Table:
    """The lines on one scale, equally long on both sides of 1."""
    ends = [abs(math.log(end)) for line in lines for end in (line.low, line.high)]
    reach = max([_LEAST, *ends])
    shown = Table.grid(padding=(0, 2))
    shown.add_row(Text(title, style="bold"), "", f"{math.exp(-reach):.2f}{'1':^{width - 8}}{math.exp(reach):.2f}", "")
    for line in lines:
        style = "bold" if line.interval and not line.low <= 1 <= line.high else ""
        shown.add_row(
            Text(f"  {line.label}"),
            Text(f"× {line.ratio:.3f}", style=style),
            Text(drawn(line, reach, width), style=style),
            line.interval,
        )
    return shown


def drawn(line: RatioLine, reach: float, width: int = _WIDTH) -> str:
    """An interval as text, on a logarithmic scale from exp(-reach) to exp(reach).

    >>> drawn(RatioLine("4kB", 1.02, 0.98, 1.06), 0.1, 21)
    '        ──│─●────    '
    """
    at = [round((math.log(one) / reach + 1) / 2 * (width - 1)) for one in (line.low, line.ratio, line.high)]
    low, middle, high = (min(width - 1, max(0, place)) for place in at)
    cells = ["─" if low <= place <= high else " " for place in range(width)]
    cells[(width - 1) // 2] = "│"
    cells[middle] = "●"
    return "".join(cells)
