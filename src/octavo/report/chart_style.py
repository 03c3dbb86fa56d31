"""How charts look: axes, names that fit, and SVG for a page."""

import html
import math
import re
from collections.abc import Iterable
from typing import Any, cast

from octavo.report.chart_colours import Theme
from octavo.report.document import clean, clip

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


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
    spec = printable(configured.to_dict(validate=False))  # of our own making: a check takes longer than the drawing
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
