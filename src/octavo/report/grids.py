"""Small heatmaps as tables: one for each number of a run whose cells are a grid of two factors.

They are HTML and not drawings: a page may have a hundred of them, each with its figures, for a few kilobytes. The same
squares make the heatmap of a terminal. Colours follow steps of the ratio, and every square has its figure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from markupsafe import Markup, escape

from octavo.report import numbers
from octavo.report.chart_colours import DARK, LIGHT, Theme, diverging, hexadecimal, text_on
from octavo.report.document import (
    SIGNS,
    Document,
    Row,
    better_direction,
    by_key,
    cells,
    clean,
    clip,
    compared,
    conditions,
    effects_by_key,
    item_names,
    levels,
    tone,
    words,
)
from octavo.report.plain import condition_text

# An interval whose ends are so many times apart says nothing.
_WIDE = 100.0
# A square's colour says between which of these its ratio lies, from the baseline on.
STEPS = (1.02, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0)


@dataclass(frozen=True, slots=True)
class Square:
    """One cell: its figure, how many steps it is better (above zero) or worse (`meaning_of_colours`), that in words
    (`description`), and the ends of its interval."""

    figure: str
    step: int
    baseline: bool
    undecided: bool
    letters: str
    description: str
    ends: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A heatmap; `rows` from the top, each with a label and a square, or None, for every column."""

    title: str
    note: str
    x: str
    y: str
    columns: list[str]
    rows: list[tuple[str, list[Square | None]]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The heatmaps of one condition: of the whole, and of each item."""

    title: str
    whole: Grid | None
    items: list[Grid]


def sheets(document: Document) -> list[Sheet]:
    """All heatmaps of a run with items; none where its cells are no grid. Minima of all runs come first.

    A run of one factor whose items have plans has one for each condition: its levels across, its items down.
    """
    if len(compared(document)) == 1:
        return _sheets_of_one_factor(document)
    if len(compared(document)) != 2:
        return []
    found: list[Sheet] = []
    if best := document.get("best_of"):
        found.append(best_sheet(document, best))
    metric = document["run"]["primary_metric"]
    if not item_names(document, metric):
        return found
    effects = effects_by_key(document)
    plans = {(row["condition"], row["item"]): row for row in document.get("plans", ())}
    for condition in conditions(document):
        here = cells(document, condition)
        names = [item for item in item_names(document, metric) if any((c["id"], metric, item) in effects for c in here)]
        made = [grid(document, here, effects, item, plans.get((condition, item or ""))) for item in (None, *names)]
        found.append(Sheet(clip(condition_text(condition), 80) or "all trials", made[0], made[1:]))
    return found


def _sheets_of_one_factor(document: Document) -> list[Sheet]:
    metric, (x,) = document["run"]["primary_metric"], compared(document)
    better = better_direction(document)
    effects = by_key(document["effects"])
    by_condition: dict[str, list[Row]] = {}
    for row in document.get("plans", ()):
        by_condition.setdefault(row["condition"], []).append(row)
    found: list[Sheet] = []
    for condition, rows in by_condition.items():
        columns = levels(document, x)
        by_level = {str(cell["levels"].get(x)): cell for cell in cells(document, condition) if not cell["control"]}
        squares: list[tuple[str, list[Square | None]]] = []
        for row in rows:
            letters = {one["cell"]: one["by_load"] for one in row["cells"]}
            mine: list[Square | None] = []
            for column in columns:
                cell = by_level.get(column)
                if cell is None:
                    mine.append(None)
                    continue
                effect = effects.get((cell["id"], metric, row["item"]))
                mine.append(square(cell, effect, better, letters.get(cell["id"], {})))
            squares.append((row["item"], mine))
        grid = Grid("each item", "", words(x), "item", columns, squares)
        found.append(Sheet(clip(condition_text(condition), 80) or "all trials", grid, []))
    return found


def best_sheet(document: Document, best: Row) -> Sheet:
    """The minima: the total of those of all items, and each item's."""
    of = {one["id"]: one["of"][0] for one in best["cells"]}
    by_id = {cell["id"]: cell for cell in document["cells"]}
    here = [{**by_id[old], "id": new} for new, old in of.items() if old in by_id]
    effects = by_key(best["effects"])
    plans = {row["item"]: row for row in best["plans"]}
    names = [item for item in item_names(document, document["run"]["primary_metric"]) if item in plans or any(
        effect["item"] == item for effect in best["effects"])]  # fmt: skip
    made = [grid(document, here, effects, item, plans.get(item or "")) for item in (None, *names)]
    return Sheet(f"{best['name']}, as in the published figures", made[0], made[1:])


def grid(
    document: Document, here: Sequence[Row], effects: Mapping[Any, Row], item: str | None, plans: Row | None
) -> Grid:
    """The squares of these cells by the levels of two factors; the A/A control has none."""
    metric = document["run"]["primary_metric"]
    better = better_direction(document)
    x, y = compared(document)
    letters = {one["cell"]: one["by_load"] for one in plans["cells"]} if plans else {}
    squares = {
        (str(cell["levels"].get(x)), str(cell["levels"].get(y))): square(
            cell, effects.get((cell["id"], metric, item)), better, letters.get(cell["id"], {})
        )
        for cell in here
        if not cell["control"]
    }
    columns, rows = levels(document, x), levels(document, y)[::-1]
    count = plans["distinct"] if plans else 0
    return Grid(
        title=clip(clean(item), 40) if item else "total",
        note="" if not plans else "1 plan" if count == 1 else f"{count} plans",
        x=words(x),
        y=words(y),
        columns=columns,
        rows=[(row, [squares.get((column, row)) for column in columns]) for row in rows],
    )


def square(cell: Row, effect: Row | None, better: str | None, by_load: Mapping[str, str]) -> Square:
    """The square of a cell; `by_load` are the letters of its plans."""
    letters = "".join(dict.fromkeys(by_load.values()))
    message = f", plan {'/'.join(by_load.values())}" if letters else ""
    if cell["baseline"]:
        text = f"baseline{message}"
        return Square("100", 0, baseline=True, undecided=False, letters=letters, description=text, ends="baseline")
    if effect is None or not effect["ratio"]:
        text = f"no estimate{message}"
        return Square(numbers.MISSING, 0, baseline=False, undecided=True, letters=letters, description=text)
    ratio = effect["ratio"]
    sign = -1 if (ratio > 1) == (better == "lower") else 1
    kind = tone(effect)
    return Square(
        figure=figure(ratio),
        step=sign * step_of(ratio),
        baseline=False,
        undecided=kind == "undecided",
        letters=letters,
        description=f"{SIGNS[kind]} {effect['verdict']}: × "
        f"{numbers.ratio_interval(ratio, effect['low'], effect['high'])}{message}",
        ends=interval(effect["low"], effect["high"]),
    )


def figure(ratio: float) -> str:
    """A ratio as percent without the sign, or as a factor from ten on.

    >>> figure(0.934), figure(11.4), figure(123.4)
    ('93', '×11', '×123')
    """
    return interval_figures(ratio)[0]


def interval(low: float | None, high: float | None) -> str:
    """The ends of an interval as a square has them.

    >>> interval(0.934, 1.2), interval(9.051, 15.4), interval(None, None), interval(1e-5, 30)
    ('93–120', '×9.1–×15', 'no interval', 'wide')
    """
    if low is None or high is None:
        return "no interval"
    if high / low > _WIDE:
        return "wide"
    return "–".join(interval_figures(low, high))


def interval_figures(*ratios: float) -> list[str]:
    """Ratios in one form: as percent, or as factors where one of them is ten or more.

    >>> interval_figures(0.934, 1.2), interval_figures(9.051, 15.4)
    (['93', '120'], ['×9.1', '×15'])
    """
    if max(ratios) < 9.995:
        return [f"{100 * ratio:.0f}" for ratio in ratios]
    return [f"×{ratio:.0f}" if ratio >= 9.95 else f"×{ratio:.1f}" for ratio in ratios]


def step_of(ratio: float) -> int:
    """How many steps of colour a ratio is away from 1, in either direction.

    >>> step_of(1.01), step_of(1.06), step_of(1 / 1.06), step_of(30)
    (0, 2, 2, 7)
    """
    distance = max(ratio, 1 / ratio)
    return sum(distance >= bound - 1e-12 for bound in STEPS)


def meaning_of_colours(better: str | None) -> str:
    """What blue and orange say, by the better direction of the metric, which not every one has.

    >>> meaning_of_colours("lower"), meaning_of_colours(None)
    ('blue is better and orange is worse', 'blue is more and orange is less')
    """
    return "blue is more and orange is less" if better is None else "blue is better and orange is worse"


def colour(step: int, theme: Theme) -> tuple[int, int, int]:
    """The colour of a step. Even the first one is distinguishable from none."""
    share = (abs(step) + 0.5) / (len(STEPS) + 0.5) if step else 0.0
    return diverging(math.copysign(share, step), theme)


def breakable(text: object) -> Markup:
    """A label that may be broken after a slash.

    >>> breakable("cached/<b>")
    Markup('cached/<wbr>&lt;b&gt;')
    """
    return Markup("/<wbr>").join(escape(part) for part in str(text).split("/"))


def style() -> str:
    """The style sheet of the squares' steps in both themes: `.b1` … are better, `.w1` … worse."""

    def rules(theme: Theme) -> str:
        found: list[str] = []
        for step in range(-len(STEPS), len(STEPS) + 1):
            name = "e" if step == 0 else f"{'b' if step > 0 else 'w'}{abs(step)}"
            fill = colour(step, theme)
            found.append(f".grid .{name}{{background:{hexadecimal(fill)};color:{text_on(fill)}}}")
        return "".join(found)

    frame = resources.files("octavo.report").joinpath("grids.css").read_text(encoding="utf-8")
    return f"{frame}{rules(LIGHT)}@media screen and (prefers-color-scheme:dark){{{rules(DARK)}}}"


def class_of(square: Square) -> str:
    """The square's classes in the style sheet."""
    step = "e" if square.step == 0 else f"{'b' if square.step > 0 else 'w'}{abs(square.step)}"
    return step + (" base" if square.baseline else " open" if square.undecided else "")
