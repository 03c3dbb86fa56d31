"""How charts look: two themes, a diverging colour safe for colour-blind readers, and SVG for a page."""

import html
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from octavo.report.document import clean, clip

Colour = tuple[int, int, int]

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
WIDEST = math.log(2.0)
NARROWEST = math.log(1.1)


@dataclass(frozen=True)
class Theme:
    """Colours of one variant; `worse`, `even` and `better` are the diverging scale."""

    name: str
    paper: Colour
    ink: str
    soft: str
    line: str
    band: str
    worse: Colour
    even: Colour
    better: Colour
    loads: tuple[str, ...]
    cells: tuple[str, ...]
    ramp: tuple[Colour, Colour, Colour]


LIGHT = Theme(
    name="light",
    paper=(253, 252, 249),
    ink="#1d1f23",
    soft="#5b6068",
    line="#d9d6cf",
    band="#ebe7dd",
    worse=(196, 92, 8),
    even=(242, 240, 235),
    better=(30, 99, 170),
    loads=("#6d3fa0", "#1d7a4f", "#a0276a", "#54616e", "#7d6a00", "#157a8c"),
    cells=("#6d3fa0", "#1d7a4f", "#a0276a", "#157a8c", "#7d6a00", "#8a4b2a", "#7f8a96", "#3a4fb0"),
    ramp=((84, 44, 140), (24, 138, 140), (224, 168, 40)),
)
DARK = Theme(
    name="dark",
    paper=(24, 26, 29),
    ink="#e9e6df",
    soft="#a8a59d",
    line="#3b3f45",
    band="#2d3035",
    worse=(240, 140, 50),
    even=(50, 53, 58),
    better=(96, 170, 240),
    loads=("#c3a0ee", "#63c89a", "#f08cc0", "#b4bfca", "#d6c24c", "#5fc6d8"),
    cells=("#c3a0ee", "#63c89a", "#f08cc0", "#5fc6d8", "#d6c24c", "#d8a07c", "#8b96a2", "#97a6ff"),
    ramp=((168, 128, 240), (70, 190, 190), (244, 212, 110)),
)


def hexadecimal(colour: Colour) -> str:
    """A colour as CSS writes it.

    >>> hexadecimal((255, 0, 16))
    '#ff0010'
    """
    return "#{:02x}{:02x}{:02x}".format(*colour)


def reach(logs: Iterable[float]) -> float:
    """The |log ratio| at which the diverging scale ends: the largest there is, between ×1.1 and ×2."""
    return min(WIDEST, max([NARROWEST, *(abs(value) for value in logs)]))


def diverging(position: float, theme: Theme) -> Colour:
    """The colour at a position from -1 (worse) over 0 (even) to 1 (better); beyond the ends it stays the end.

    >>> diverging(0, LIGHT) == LIGHT.even, diverging(-3, LIGHT) == LIGHT.worse
    (True, True)
    """
    return mix(theme.even, theme.better if position > 0 else theme.worse, min(1.0, abs(position)))


def mix(start: Colour, end: Colour, share: float) -> Colour:
    """The colour a share of the way from start to end."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(start, end, strict=True))
    return red, green, blue


def ramp(theme: Theme, count: int) -> list[str]:
    """So many colours for ordered levels, from dark to light.

    >>> ramp(LIGHT, 3)
    ['#542c8c', '#188a8c', '#e0a828']
    """
    first, middle, last = theme.ramp
    shares = [2 * i / max(1, count - 1) for i in range(count)]
    return [hexadecimal(mix(first, middle, s) if s <= 1 else mix(middle, last, s - 1)) for s in shares]


def luminance(colour: Colour) -> float:
    """Relative luminance (WCAG), 0 to 1."""
    parts = (c / 255 for c in colour)
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def text_on(colour: Colour) -> str:
    """Black or white text, whichever has more contrast on a colour.

    >>> text_on((255, 255, 255)), text_on((0, 0, 0))
    ('#141517', '#ffffff')
    """
    here = luminance(colour)
    return "#ffffff" if 1.05 / (here + 0.05) > (here + 0.05) / (luminance((20, 21, 23)) + 0.05) else "#141517"


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


def inline_data(rows: Iterable[dict[str, Any]]) -> Any:
    """Rows as the data of a chart. A tuple, which altair does not copy each time a chart is put into another one."""
    import altair as alt

    return alt.InlineData(values=tuple(rows))


def to_svg(chart: Any, theme: Theme, prefix: str, description: str) -> str:
    """The SVG of an altair chart, for inlining: its ids get a prefix, its root says what it shows."""
    import altair as alt
    import vl_convert

    axis = {
        "labelColor": theme.ink,
        "titleColor": theme.soft,
        "gridColor": theme.line,
        "domainColor": theme.line,
        "tickColor": theme.line,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 240,
        "titlePadding": 8,
    }
    legend = {
        "labelColor": theme.ink,
        "titleColor": theme.soft,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 200,
        "symbolStrokeWidth": 1.6,
    }
    heading = {
        "color": theme.ink,
        "fontSize": 14,
        "fontWeight": 600,
        "anchor": "start",
        "offset": 10,
        "subtitleColor": theme.soft,
    }
    configured = chart.configure(
        font=FONT,
        background="transparent",
        aria=False,
        padding={"left": 18, "right": 34, "top": 4, "bottom": 4},
        axis=axis,
        legend=legend,
        title=heading,
        view={"stroke": None},
    )
    spec = printable(configured.to_dict())
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=version, allowed_base_urls=[])
    return inline(svg, f"{prefix}-{theme.name}", description)


def printable(spec: Any) -> Any:
    """A chart's specification without control characters, which would end the process that draws it.

    >>> printable({"a": ["x\\x1b", 1]})
    {'a': ['x�', 1]}
    """
    if isinstance(spec, dict):
        return {clean(key): printable(value) for key, value in cast(dict[str, Any], spec).items()}
    if isinstance(spec, list):
        return [printable(value) for value in cast(list[Any], spec)]
    return clean(spec) if isinstance(spec, str) else spec


def inline(svg: str, prefix: str, description: str) -> str:
    """An SVG document made fit to stand inside a page beside others.

    >>> inline('<svg xmlns="http://www.w3.org/2000/svg"><g id="a" clip-path="url(#a)"/></svg>', "p", "x<y")
    '<svg role="img" aria-label="x&lt;y"><g id="p-a" clip-path="url(#p-a)"/></svg>'
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"""\s+xmlns(:\w+)?=(["'])http://www\.w3\.org/[^"']*\2""", "", body)
    body = re.sub(r'\bid="([^"]*)"', rf'id="{prefix}-\1"', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    return body.replace("<svg", f'<svg role="img" aria-label="{html.escape(description)}"', 1)
