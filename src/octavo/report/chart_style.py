"""What charts share: ratios on an axis, names that fit, headings, and a chart as SVG for a page or as a file."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from octavo.report import svg
from octavo.report.chart_colours import LIGHT, PLAIN, Theme, coloured, hexadecimal, with_variables
from octavo.report.document import clean, clip

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def ticks(low: float, high: float) -> list[float]:
    """Round ratios for a logarithmic axis from low to high; 1 is always among them when it is inside.

    >>> ticks(0.93, 1.12)
    [0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06, 1.08, 1.1, 1.12]
    >>> ticks(0.3, 9)
    [0.5, 1.0, 2.0, 4.0, 8.0]
    """
    if high / low > 4:
        span = max(1, math.ceil(math.log2(high / low) / 8))
        powers = range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)
        return [2.0**power for power in powers if power % span == 0 and low <= 2.0**power <= high]
    for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        found = [round(step * n, 3) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
        if len(found) <= 10:
            return found
    return [1.0]


def short_names(names: Iterable[str], length: int = 22) -> dict[str, str]:
    """Names that fit an axis and still differ from each other.

    >>> short_names(["8kB", "abcdef", "abcdeg"], 4)
    {'8kB': '8kB', 'abcdef': 'abc…', 'abcdeg': 'abc…(2)'}
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        short = clip(clean(name), length)
        taken = set(found.values())
        number = 2
        unique = short
        while unique in taken:
            unique, number = f"{short}({number})", number + 1
        found[name] = unique
    return found


@dataclass(frozen=True)
class Chart:
    """A drawing in pixels from its upper left, with a name and a description of what it shows."""

    drawing: str
    width: float
    height: float
    name: str
    description: str

    def svg(self) -> str:
        """For inlining, in the colours it was drawn with."""
        return self._root(self.drawing)

    def page(self) -> str:
        """For inlining into a page that has both themes (`chart_colours.variables`)."""
        return with_variables(self.svg())

    def file(self, kind: Literal["svg", "png"]) -> bytes:
        """A chart of placeholders as a file of its own, in the light theme; a PNG has two pixels a unit."""
        import vl_convert

        place = {"x": -MARGIN, "y": -MARGIN, "width": "100%", "height": "100%"}
        paper = svg.element("rect", **place, fill=hexadecimal(PLAIN.paper))
        alone = {"xmlns": "http://www.w3.org/2000/svg", "font_family": FONT}
        drawn = coloured(self._root(paper + self.drawing, MARGIN, **alone), LIGHT)
        if kind == "svg":
            return drawn.encode("utf-8", "replace")
        return vl_convert.svg_to_png(drawn, scale=2)

    def _root(self, content: str, margin: int = 0, **attributes: str) -> str:
        width, height = svg.number(self.width + 2 * margin), svg.number(self.height + 2 * margin)
        return svg.element(
            "svg", content, role="img", aria_label=self.description, **attributes,
            width=width, height=height, viewBox=f"{-margin} {-margin} {width} {height}",
        )  # fmt: skip


HEADING, MARGIN = 14, 10


def heading(x: float, y: float, lines: Sequence[str], theme: Theme) -> str:
    """A heading of one or several lines, the last one's baseline at y."""
    first = y - (len(lines) - 1) * 18
    return "".join(
        svg.text(x, first + 18 * n, words, HEADING, fill=theme.ink, font_weight=600) for n, words in enumerate(lines)
    )
