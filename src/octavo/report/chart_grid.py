"""A heatmap of the page's small tables as a chart, for files."""

from octavo.report import svg
from octavo.report.chart_colours import PLAIN, hexadecimal, text_on
from octavo.report.chart_style import Chart, heading, short_names
from octavo.report.document import clean, clip
from octavo.report.grids import Grid, Square, colour

WIDE, HIGH, GAP = 76, 44, 2
TOP, RIGHT = 56, 12


def grid_chart(grid: Grid, title: str) -> Chart:
    """The squares of a grid with their figures, marks and letters of plans, as on the page."""
    across = list(short_names(grid.columns, 18).values())
    down = list(short_names([label for label, _ in grid.rows], 48).values())
    left = 24 + max(map(svg.text_width, down), default=0)
    bottom = TOP + HIGH * len(down)
    lettered = any(square and square.letters for _, squares in grid.rows for square in squares)
    note = "% of the baseline, and its 95 % interval; a heavy outline: the baseline; dotted and ?: undecided"
    if lettered:
        note = "% of the baseline; a heavy outline: the baseline; dotted and ?: undecided; letters: plans"
    parts = [heading(0, 16, [clip(clean(title), 60)], PLAIN), svg.text(0, 36, note, 11, fill=PLAIN.soft)]
    for row, (_, squares) in enumerate(grid.rows):
        for column, square in enumerate(squares):
            if square is not None:
                parts.append(_square(square, left + WIDE * column, TOP + HIGH * row))
    rows = (svg.text(left - 6, TOP + HIGH * (n + 0.5) + 4, label, text_anchor="end") for n, label in enumerate(down))
    parts.append(svg.group(rows, fill=PLAIN.ink))
    slanted = max(map(svg.text_width, across), default=0) > WIDE - GAP
    columns = (_column(left + WIDE * (n + 0.5), bottom, label, slanted) for n, label in enumerate(across))
    parts.append(svg.group(columns, fill=PLAIN.ink))
    below = bottom + 22 + (0.5 * max(map(svg.text_width, across)) if slanted else 0)
    middle = left + WIDE * len(across) / 2
    parts.append(svg.text(middle, below + 16, grid.x, fill=PLAIN.soft, text_anchor="middle"))
    turned = f"translate(12,{svg.number((TOP + bottom) / 2)})rotate(-90)"
    parts.append(svg.text(0, 0, grid.y, fill=PLAIN.soft, text_anchor="middle", transform=turned))
    width = max(left + WIDE * len(across), svg.text_width(note, 11), svg.text_width(clip(title, 60), 15)) + RIGHT
    return Chart("".join(parts), width, below + 26, "grid", f"Heatmap: {title}")


def _column(x: float, y: float, label: str, slanted: bool) -> str:
    """The label of a column with its centre at x, below y."""
    if slanted:
        turned = f"translate({svg.number(x)},{svg.number(y + 12)})rotate(-30)"
        return svg.text(0, 0, label, text_anchor="end", transform=turned)
    return svg.text(x, y + 17, label, text_anchor="middle")


def _square(square: Square, x: float, y: float) -> str:
    fill = colour(square.step, PLAIN)
    ink = text_on(fill)
    box = svg.element(
        "rect", x=x + GAP, y=y + GAP, width=float(WIDE - 2 * GAP), height=float(HIGH - 2 * GAP), rx=2,
        fill=hexadecimal(fill), stroke=PLAIN.ink if square.baseline or square.undecided else hexadecimal(PLAIN.paper),
        stroke_width="3" if square.baseline else "1.2", stroke_dasharray="2,2.5" if square.undecided else None,
    )  # fmt: skip
    upper = square.figure + (" ?" if square.undecided else "")
    lower = clip(clean(square.letters), 10) or square.ends
    middle = x + WIDE / 2
    return (
        box
        + svg.text(middle, y + HIGH / 2 - 3, upper, 13, fill=ink, text_anchor="middle", font_weight=600)
        + svg.text(middle, y + HIGH / 2 + 14, lower, 10, fill=ink, text_anchor="middle")
    )
