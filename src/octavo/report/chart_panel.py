"""A small chart of lines over time as SVG, written directly.

A page has dozens of them: Vega-Lite, which draws the other charts, takes about 50 ms for each. Ticks and their labels
are those of d3 (https://d3js.org/d3-array/ticks, https://d3js.org/d3-format), so that all charts look alike.
"""

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from octavo.report.chart_colours import PLAIN, hexadecimal, with_variables
from octavo.report.chart_style import FONT, file_of
from octavo.report.series_lines import ChartLine

WIDTH, HEIGHT = 270, 110
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 36, 9, 22
_TICKS, _DOT = 4, 2.3
# A label of many figures has a prefix instead.
_LONG = 1e4
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
# About how wide a letter of a label, of a title and of the line below it is, in pixels, and how high the two are.
_LETTER, _TITLE_LETTER, _NOTE_LETTER, _TITLE_HEIGHT = 7, 9, 7, 44


@dataclass(frozen=True)
class LinePanel:
    """Lines from 0 s to `end` and from 0 to `top`; a line of one point is a dot."""

    description: str
    lines: Sequence[ChartLine]
    end: float
    top: float
    heading: str = ""
    note: str = ""

    def page(self) -> str:
        """For inlining into a page that has both themes, without its heading."""
        size = f'width="{_LEFT + WIDTH + _RIGHT}" height="{_TOP + HEIGHT + _BOTTOM}"'
        box = f'viewBox="0 0 {_LEFT + WIDTH + _RIGHT} {_TOP + HEIGHT + _BOTTOM}"'
        label = html.escape(self.description)
        return with_variables(f'<svg role="img" aria-label="{label}" {size} {box}>{self._drawn(_TOP)}</svg>')

    def file(self, kind: Literal["svg", "png"]) -> bytes:
        """As a file of its own with its heading, in the light theme."""
        longest = max(_TITLE_LETTER * len(self.heading), _NOTE_LETTER * len(self.note))
        width, height = max(_LEFT + WIDTH, _RIGHT + longest) + _RIGHT, _TITLE_HEIGHT + HEIGHT + _BOTTOM
        return file_of(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="{html.escape(FONT)}">'
            f'<rect width="{width}" height="{height}" fill="{hexadecimal(PLAIN.paper)}"/>'
            f'<text x="{_RIGHT}" y="16" font-size="14px" font-weight="600" fill="{PLAIN.ink}">'
            f"{html.escape(self.heading)}</text>"
            f'<text x="{_RIGHT}" y="31" font-size="11px" fill="{PLAIN.soft}">{html.escape(self.note)}</text>'
            f"{self._drawn(_TITLE_HEIGHT)}</svg>",
            kind,
        )

    def _drawn(self, top: int) -> str:
        """Axes and lines, the upper left of the plot at _LEFT and `top`."""
        step_x, step_y = tick_step(self.end, _TICKS), tick_step(self.top, _TICKS)
        across = [(_px(value / self.end * WIDTH), f"{text} s") for value, text in labelled(self.end, step_x, 0)]
        power = min(len(_PREFIXES) - 1, int(math.log10(self.top) // 3)) if self.top > _LONG else 0
        up = [(_px(HEIGHT - value / self.top * HEIGHT), text) for value, text in labelled(self.top, step_y, power)]
        # On half pixels, so that lines of one pixel are sharp.
        rules = [f"M-4.5,{round(y) + 0.5}h{WIDTH + 5}" for y, _ in up]
        rules += [f"M{round(x) + 0.5},{HEIGHT + 0.5}v5" for x, _ in across]
        labels = "".join(f'<text x="-7" y="{y + 4:g}" text-anchor="end">{text}</text>' for y, text in up)
        labels += "".join(
            f'<text x="{x:g}" y="{HEIGHT + 16}" text-anchor="{anchor}">{text}</text>'
            for x, text, anchor in _apart(across)
        )
        return (
            f'<g fill="none" transform="translate({_LEFT},{top})">'
            f'<path stroke="{PLAIN.line}" d="{"".join(rules)}M0.5,{HEIGHT + 0.5}h{WIDTH}"/>'
            f'<g fill="{PLAIN.ink}" font-size="12px">{labels}</g>{"".join(map(self._line, self.lines))}</g>'
        )

    def _line(self, line: ChartLine) -> str:
        right, down = WIDTH / self.end, HEIGHT / self.top
        points = [
            f"{second * right:.1f},{HEIGHT - value * down:.1f}"
            for second, value in zip(line.seconds, line.values, strict=True)
        ]
        if len(points) == 1:
            x, y = points[0].split(",")
            return f'<circle cx="{x}" cy="{y}" r="{_DOT}" fill="{line.look.colour}"/>'
        dash = f' stroke-dasharray="{" ".join(map(str, line.look.dash))}"' if line.look.dash else ""
        path = f"M{'L'.join(points)}Z".replace(".0,", ",").replace(".0L", "L").replace(".0Z", "Z")[:-1]
        return f'<path stroke="{line.look.colour}" stroke-width="1.4" stroke-linejoin="round"{dash} d="{path}"/>'


def _px(value: float) -> float:
    return round(value, 1)


def _apart(labels: Sequence[tuple[float, str]]) -> Iterator[tuple[float, str, str]]:
    """The labels of the horizontal axis that do not touch the one before, and how each is aligned: inside the axis."""
    end = -math.inf
    for x, text in labels:
        width = _LETTER * len(text)
        anchor, left = ("start", 0.0) if x < 1 else ("end", x - width) if x > WIDTH - 1 else ("middle", x - width / 2)
        if left > end:
            yield x, text, anchor
            end = left + width


def tick_step(end: float, count: int) -> float:
    """The round step that divides 0 to `end` into about so many parts.

    >>> tick_step(10, 4), tick_step(135, 4), tick_step(0.9, 4)
    (2.0, 50.0, 0.2)
    """
    power = 10.0 ** math.floor(math.log10(end / count))
    rest = end / count / power
    factor = 10 if rest >= 50**0.5 else 5 if rest >= 10**0.5 else 2 if rest >= 2**0.5 else 1
    return float(f"{factor * power:.0e}")


def rounded_up(end: float) -> float:
    """The end of an axis from 0 that has all of it, at a round number.

    >>> rounded_up(135), rounded_up(0.93), rounded_up(100)
    (140.0, 1.0, 100.0)
    """
    step = 0.0
    while (found := tick_step(end, 10)) != step:
        step = found
        end = math.ceil(round(end / step, 9)) * step
    return float(f"{end:.12g}")


def labelled(end: float, step: float, power: int) -> Iterator[tuple[float, str]]:
    """The ticks from 0 to `end` with their labels, in so many powers of 1000.

    >>> list(labelled(2, 0.5, 0))[1], [text for _, text in labelled(6000, 2000, 0)]
    ((0.5, '0.5'), ['0', '2,000', '4,000', '6,000'])
    >>> [text for _, text in labelled(15_000, 5000, 1)], [text for _, text in labelled(2_500_000, 500_000, 2)][-1]
    (['0k', '5k', '10k', '15k'], '2.5M')
    """
    places = max(0, 3 * power - math.floor(math.log10(step)))
    for number in range(math.floor(end / step + 1e-9) + 1):
        value = number * step
        text = f"{value / 1000**power:,.{places}f}"
        if power and "." in text:
            text = text.rstrip("0").rstrip(".")
        yield value, text + _PREFIXES[power]
