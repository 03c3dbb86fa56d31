"""The colours of charts: two themes, a diverging scale safe for colour-blind readers, and placeholders for both."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

Colour = tuple[int, int, int]

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


_NONE: Colour = (0, 0, 0)
_STEPS = 254  # even, so that the middle of a scale is one of them
# The first byte of a placeholder says what it stands for, the last one which.
_FIELD, _FILL, _TEXT, _RAMP = 1, 2, 3, 4
_NAMED = ("ink", "soft", "line", "band")


def _placeholders() -> Theme:
    """A theme of placeholders, so that a chart is drawn once and coloured for each theme (`coloured`)."""
    numbers = iter(range(256))

    def colour() -> Colour:
        return _FIELD, 0, next(numbers)

    names = {name: hexadecimal(colour()) for name in _NAMED}
    loads = tuple(hexadecimal(colour()) for _ in LIGHT.loads)
    cells = tuple(hexadecimal(colour()) for _ in LIGHT.cells)
    # The scales themselves are never mixed here: `diverging` and `ramp` give placeholders of their own.
    return Theme("plain", paper=colour(), worse=_NONE, even=_NONE, better=_NONE, loads=loads, cells=cells,
                 ramp=(_NONE, _NONE, _NONE), **names)  # fmt: skip


def coloured(svg: str, theme: Theme) -> str:
    """A chart drawn with PLAIN in the colours of a theme, its ids made the theme's own."""
    fixed = dict(zip(_fixed(PLAIN), _fixed(theme), strict=True))

    def colour(match: re.Match[str]) -> str:
        what, which = int(match[1], 16), int(match[2], 16) / _STEPS
        if what == _FIELD:
            return fixed.get(match[0], match[0])
        if what == _RAMP:
            return hexadecimal(_on_ramp(which, theme))
        fill = diverging(2 * which - 1, theme)
        return hexadecimal(fill) if what == _FILL else text_on(fill)

    # In attributes only: a label may look like a colour.
    found = re.sub(r'(?<==")#(0[1-4])00([0-9a-f]{2})(?=")', colour, svg)
    return re.sub(rf'(\bid="|url\(#)(\w+)-{PLAIN.name}-', rf"\1\2-{theme.name}-", found)


_PLACEHOLDER = re.compile(r'(?<==")#0([1-4])00([0-9a-f]{2})(?=")')
_VARIABLE = re.compile(r"var\(--c([1-4])([0-9a-f]{2})\)")


def with_variables(svg: str) -> str:
    """A chart drawn with PLAIN whose colours are custom properties of the page (`variables`): drawn once for both
    themes.

    >>> with_variables('<path fill="#01007f"/><text>#01007f</text>')
    '<path fill="var(--c17f)"/><text>#01007f</text>'
    """
    # In attributes only: a label may look like a colour.
    return _PLACEHOLDER.sub(r"var(--c\1\2)", svg)


def variables(page: str) -> str:
    """The style sheet that defines the colours which the charts of a page use, in both themes."""
    used = sorted(set(_VARIABLE.findall(page)))

    def rules(theme: Theme) -> str:
        names = "".join(f'<i a="#0{what}00{which}"/>' for what, which in used)
        values = re.findall(r'a="([^"]*)"', coloured(names, theme))
        pairs = zip(used, values, strict=True)
        return ":root{" + "".join(f"--c{what}{which}:{value};" for (what, which), value in pairs) + "}"

    if not used:
        return ""
    return f"{rules(LIGHT)}@media screen and (prefers-color-scheme:dark){{{rules(DARK)}}}"


def _fixed(theme: Theme) -> list[str]:
    return [*(getattr(theme, name) for name in _NAMED), *theme.loads, *theme.cells, hexadecimal(theme.paper)]


def _byte(share: float) -> int:
    return round(share * _STEPS)


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
    if theme is PLAIN:
        return _FILL, 0, _byte((max(-1.0, min(1.0, position)) + 1) / 2)
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
    return [hexadecimal(_on_ramp(i / max(1, count - 1), theme)) for i in range(count)]


def _on_ramp(share: float, theme: Theme) -> Colour:
    if theme is PLAIN:
        return _RAMP, 0, _byte(share)
    first, middle, last = theme.ramp
    return mix(first, middle, 2 * share) if share <= 0.5 else mix(middle, last, 2 * share - 1)


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
    if colour[0] == _FILL and colour[1] == 0:
        return hexadecimal((_TEXT, 0, colour[2]))
    here = luminance(colour)
    return "#ffffff" if 1.05 / (here + 0.05) > (here + 0.05) / (luminance((20, 21, 23)) + 0.05) else "#141517"


PLAIN = _placeholders()
