"""A chart specified in Vega-Lite and drawn by vl-convert: for pages of few charts, such as a trace's."""

import html
import re
from dataclasses import dataclass
from typing import Any, Literal, cast

from octavo.report.chart_colours import LIGHT, PLAIN, Theme, coloured, hexadecimal
from octavo.report.chart_style import FONT
from octavo.report.document import clean

_VERSION = "6.4"  # of Vega-Lite, one that vl-convert has


@dataclass(frozen=True)
class VegaChart:
    """A drawing as Vega-Lite specifies it, with a name that is fit for ids and a description of what it shows."""

    spec: dict[str, Any]
    name: str
    description: str

    def svg(self, theme: Theme) -> str:
        """For inlining: its ids get a prefix, its root says what it shows."""
        return inline(self._drawn(theme, "transparent"), f"{self.name}-{theme.name}", self.description)

    def file(self, kind: Literal["svg", "png"]) -> bytes:
        """A chart of placeholders as a file of its own, in the light theme; a PNG has two pixels a unit."""
        import vl_convert

        svg = coloured(self._drawn(PLAIN, hexadecimal(PLAIN.paper)), LIGHT)
        if kind == "svg":
            return svg.encode("utf-8", "replace")
        return vl_convert.svg_to_png(svg, scale=2)

    def _drawn(self, theme: Theme, background: str) -> str:
        import vl_convert

        spec = printable(self.spec | {"config": _config(theme), "background": background, "padding": _PADDING})
        return vl_convert.vegalite_to_svg(spec, vl_version=_VERSION, allowed_base_urls=[])


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
