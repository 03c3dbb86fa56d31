"""How charts look: axes, names that fit, and a chart as SVG for a page or as a file."""

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, Literal, cast

from octavo.report.chart_colours import LIGHT, PLAIN, Theme, coloured, hexadecimal, with_variables
from octavo.report.document import clean, clip

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
_VEGA_LITE = "6.1"
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


def tick_format(marked: Sequence[float], low: float, high: float) -> str:
    """How the labels of these ticks are written (https://d3js.org/d3-format), so that each is its tick's value.

    >>> tick_format([0.995, 1.0, 1.005], 0.99, 1.01), tick_format([0.9, 1.0, 1.1], 0.9, 1.1)
    ('.3f', '.2f')
    >>> tick_format([0.125, 0.25, 0.5, 1.0], 0.1, 1.1)
    '~g'
    """
    if high / low > 4:
        return "~g"
    return f".{3 if any(round(value, 2) != value for value in marked) else 2}f"


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


def mark(
    kind: str, rows: Iterable[Mapping[str, Any]], encoding: Mapping[str, Any], **properties: Any
) -> dict[str, Any]:
    """Marks of one kind, one for each row, as Vega-Lite names them (https://vega.github.io/vega-lite/docs)."""
    return {"mark": {"type": kind, **properties}, "data": {"values": list(rows)}, "encoding": dict(encoding)}


def number(field: str, **properties: Any) -> dict[str, Any]:
    """A channel of the numbers of a field."""
    return {"field": field, "type": "quantitative", **properties}


def name(field: str, **properties: Any) -> dict[str, Any]:
    """A channel of the names of a field."""
    return {"field": field, "type": "nominal", **properties}


def layered(marks: Iterable[Mapping[str, Any]], **properties: Any) -> dict[str, Any]:
    """Marks on top of each other."""
    return {"layer": list(marks), **properties}


def stacked(panels: Sequence[dict[str, Any]], spacing: int, **properties: Any) -> dict[str, Any]:
    """Panels below each other."""
    return {"vconcat": list(panels), "spacing": spacing, **properties}


@dataclass(frozen=True)
class Chart:
    """A chart as a Vega-Lite specification, with a name for ids and a description."""

    spec: dict[str, Any]
    name: str
    description: str

    def svg(self, theme: Theme) -> str:
        """For inlining: its ids get a prefix, its root a description."""
        return inline(self._drawn(theme, "transparent"), f"{self.name}-{theme.name}", self.description)

    def page(self) -> str:
        """For inlining into a page that has both themes (`chart_colours.variables`)."""
        return slim(with_variables(self.svg(PLAIN)))

    def file(self, kind: Literal["svg", "png"]) -> bytes:
        """As a file of its own, in the light theme."""
        return file_of(self._drawn(PLAIN, hexadecimal(PLAIN.paper)), kind)

    def _drawn(self, theme: Theme, background: str) -> str:
        import vl_convert

        spec = printable(self.spec | {"config": _config(theme), "background": background, "padding": _PADDING})
        return vl_convert.vegalite_to_svg(spec, vl_version=_VEGA_LITE, allowed_base_urls=[])


def load_vega() -> None:
    """Starts loading the chart library in the background, which takes most of a second."""

    def draw_nothing() -> None:
        Chart({"mark": "point"}, "", "").svg(PLAIN)

    Thread(target=draw_nothing, name="vega").start()


def file_of(svg: str, kind: Literal["svg", "png"]) -> bytes:
    """An SVG document of placeholders in the light theme, as itself or as a PNG with two pixels a unit."""
    import vl_convert

    light = coloured(svg, LIGHT)
    return light.encode("utf-8", "replace") if kind == "svg" else vl_convert.svg_to_png(light, scale=2)


# Left and right: a browser's letters may be wider than those that the labels were measured with.
_PADDING = {"left": 36, "right": 34, "top": 4, "bottom": 4}


def _config(theme: Theme) -> dict[str, Any]:
    """How everything looks that a chart does not say itself."""
    words = {
        "labelColor": theme.ink,
        "titleColor": theme.soft,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    lines = {"gridColor": theme.line, "domainColor": theme.line, "tickColor": theme.line}
    heading = {"color": theme.ink, "fontSize": 14, "fontWeight": 600, "anchor": "start", "offset": 10}
    return {
        "font": FONT,
        "aria": False,
        "axis": {**words, **lines, "labelLimit": 320, "titlePadding": 8},
        "legend": {**words, "labelLimit": 320, "symbolStrokeWidth": 1.6},
        "title": {**heading, "subtitleColor": theme.soft},
        "view": {"stroke": None},
    }


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


def slim(svg: str) -> str:
    """The SVG without what does not show, and to a tenth of a pixel: that is half of a page with many panels. A label
    that looks like an attribute stays as it is.

    >>> slim('<g class="x"><path class="background" d="M0,0h1"/><path d="M0.123,4L5.678,9"/></g>')
    '<g><path d="M0.1,4L5.6,9"/></g>'
    >>> slim('<text class="x">0.125 class="y"</text>')
    '<text>0.125 class="y"</text>'
    """
    bare = re.sub(r'<path class="(?:back|fore)ground"[^>]*/>', "", svg)
    return re.sub("<[^>]*>", _slim_tag, bare).replace("<svg", '<svg role="img"', 1)


def _slim_tag(tag: re.Match[str]) -> str:
    bare = re.sub(r' (?:class|role|aria-roledescription|pointer-events|font-family|opacity)="[^"]*"', "", tag[0])
    return re.sub(r'(?<= d=")[^"]*|(?<=transform=")[^"]*', lambda found: re.sub(r"(\.\d)\d+", r"\1", found[0]), bare)


def inline(svg: str, prefix: str, description: str) -> str:
    """An SVG document prepared for inlining in a page with others.

    >>> inline('<svg xmlns="http://www.w3.org/2000/svg"><g id="a" clip-path="url(#a)"/></svg>', "p", "x<y")
    '<svg role="img" aria-label="x&lt;y"><g id="p-a" clip-path="url(#p-a)"/></svg>'
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"""\s+xmlns(:\w+)?=(["'])http://www\.w3\.org/[^"']*\2""", "", body)
    body = re.sub(r'\bid="([^"]*)"', rf'id="{prefix}-\1"', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    return body.replace("<svg", f'<svg role="img" aria-label="{html.escape(description)}"', 1)
