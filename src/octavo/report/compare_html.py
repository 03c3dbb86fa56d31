"""A comparison as one self-contained HTML page: no network, no JavaScript; every text of the document is escaped."""

from dataclasses import replace
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from octavo.plan.condition_text import capital
from octavo.report import grids
from octavo.report.compare_sentences import Comparison, conclusion, differences, left_out, names, tables, tone
from octavo.report.document import SIGNS, clean, clip, levels, words
from octavo.report.grids import Grid, Square
from octavo.report.html import whole
from octavo.report.page_template import environment, style
from octavo.report.plain import condition_text


def render(document: Comparison) -> str:
    """The page."""
    page = _environment().get_template("compare.html.j2")
    metric = document["metrics"][document["primary_metric"]]
    text = page.render(
        document=document,
        letters=names(document),
        style=_style(),
        conclusion=conclusion(document),
        title=metric["title"],
        tables=tables(document),
        grids=ratio_grids(document),
        colours=grids.meaning_of_colours(metric.get("better")),
        differences=differences(document),
        limits=[*left_out(document), *document["limits"]],
        signs=SIGNS,
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def ratio_grids(document: Comparison) -> list[Grid]:
    """A heatmap of the second run over the first for each condition, where cells are a grid of two factors."""
    metric = document["primary_metric"]
    better = document["metrics"][metric].get("better")
    letters = names(document)
    levels_of: dict[tuple[str, str], dict[str, str]] = {
        (cell["condition"], cell["cell"]): cell["levels"] for cell in document["cells"]
    }
    every = dict.fromkeys(name for its in levels_of.values() for name in its)
    compared = [name for name in every if name in document["runs"][0]["baseline"]]
    if len(compared) != 2:
        return []
    x, y = sorted(compared, key=lambda name: name != "data_block")
    found: dict[tuple[str, str], dict[tuple[str, str], Square]] = {}
    for row in document["comparisons"]:
        here = levels_of.get((row["condition"], row["cell"]))
        if here and row["kind"] == "value" and row["metric"] == metric and row["item"] is None:
            plain: dict[str, Any] = {"baseline": False}
            made = grids.square(plain, row, better, {})
            square = replace(made, undecided=tone(row["verdict"]) == "undecided")
            found.setdefault((row["run"], row["condition"]), {})[here[x], here[y]] = square
    result: list[Grid] = []
    for (run, condition), squares in found.items():
        columns, rows = (
            [level for level in levels(document, factor) if level in {place[axis] for place in squares}]
            for axis, factor in enumerate((x, y))
        )
        title = f"{letters[run]} / A{f', {clip(condition_text(condition), 60)}' if condition else ''}"
        lines = [(row, [squares.get((column, row)) for column in columns]) for row in rows[::-1]]
        result.append(Grid(title, "", words(x), words(y), columns, lines))
    return result


@cache
def _environment() -> Environment:
    return environment(
        "octavo.report",
        clean=clean,
        clip=clip,
        square_class=grids.class_of,
        whole=whole,
        breakable=grids.breakable,
        condition_text=condition_text,
        capital=capital,
    )


@cache
def _style() -> Markup:
    return style(grids.style())
