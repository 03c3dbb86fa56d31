"""The elements of an SVG, and how wide a text is in it."""

import html
import math
from collections.abc import Iterable, Sequence

from octavo.report.document import clean

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")

# Advance of a letter in units of the font size, for the wider of the usual sans-serif fonts.
_WIDTHS = {
    **dict.fromkeys("iljI.,:;|'!`", 0.3),
    **dict.fromkeys("ftr()[]/\\ -", 0.4),
    **dict.fromkeys("mwMW%@—", 0.95),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&", 0.71),
}
_LETTER = 0.58


def text_width(text: str, size: float = 12) -> float:
    """Pixels that a text is wide, about; rather too wide than too narrow.

    >>> round(text_width("8 kB")), round(text_width("Wide", 14))
    (27, 34)
    """
    return size * sum(_WIDTHS.get(letter, _LETTER) for letter in text)


def number(value: float) -> str:
    """A coordinate to a tenth of a pixel.

    >>> number(3.0), number(-0.01), number(12.345)
    ('3', '0', '12.3')
    """
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """An element; `content` is markup. Attributes that are None are left out, underscores become hyphens.

    >>> element("rect", width=2.0, fill_opacity=None, stroke_width=1.25)
    '<rect width="2" stroke-width="1.2"/>'
    """
    given = "".join(
        f' {key.replace("_", "-")}="{number(value) if isinstance(value, float) else html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def group(parts: Iterable[str], **attributes: object) -> str:
    """Elements with common attributes; nothing without elements."""
    content = "".join(parts)
    return element("g", content, **attributes) if content else ""


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> str:
    """A straight line; its colour may be that of its group."""
    return element("path", d=f"M{number(x1)},{number(y1)}L{number(x2)},{number(y2)}", **attributes)


def polyline(points: Iterable[tuple[float, float]], **attributes: object) -> str:
    """A line through points.

    >>> polyline([(0, 1), (2, 3.04)], stroke="red")
    '<path d="M0,1L2,3" stroke="red"/>'
    """
    return element("path", d="M" + "L".join(f"{number(x)},{number(y)}" for x, y in points), **attributes)


def text(x: float, y: float, words: object, size: float = 12, **attributes: object) -> str:
    """A text without the control characters that XML forbids; x and y are where its first line begins.

    >>> text(1, 2, "a<b", text_anchor="end")
    '<text x="1" y="2" font-size="12" text-anchor="end">a&lt;b</text>'
    """
    content = html.escape(clean(words), quote=False)
    return element("text", content, x=number(x), y=number(y), font_size=number(size), **attributes)


def symbol(shape: str, x: float, y: float, area: float) -> str:
    """A mark of one of SHAPES, or an oblique "x"; the area is that of a square, other shapes have its height."""
    radius = math.sqrt(area) / 2
    if shape == "circle":
        return element("circle", cx=number(x), cy=number(y), r=number(radius))
    if shape == "x":
        return element(
            "path",
            d="".join(
                f"M{number(x - radius)},{number(y - rise)}L{number(x + radius)},{number(y + rise)}"
                for rise in (radius, -radius)
            ),
        )
    corners = ((x + radius * across, y + radius * down) for across, down in _CORNERS[shape])
    return element("path", d="M" + "L".join(f"{number(a)},{number(b)}" for a, b in corners) + "Z")


# In radii, from the centre.
_CORNERS: dict[str, Sequence[tuple[float, float]]] = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle-up": ((0, -0.87), (-1, 0.87), (1, 0.87)),
    "triangle-down": ((0, 0.87), (-1, -0.87), (1, -0.87)),
    "diamond": ((-1, 0), (0, -1), (1, 0), (0, 1)),
    "cross": (
        (-1, -0.4), (-0.4, -0.4), (-0.4, -1), (0.4, -1), (0.4, -0.4), (1, -0.4),
        (1, 0.4), (0.4, 0.4), (0.4, 1), (-0.4, 1), (-0.4, 0.4), (-1, 0.4),
    ),
}  # fmt: skip
