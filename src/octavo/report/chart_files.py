"""Every chart of the page as a file of its own, in the light theme, named by its content."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from octavo.report import chart_run, chart_trials
from octavo.report.chart_colours import PLAIN, Theme
from octavo.report.chart_grid import grid_chart
from octavo.report.chart_panel import LinePanel
from octavo.report.chart_series import series_charts
from octavo.report.chart_style import Chart
from octavo.report.document import Document, clean, conditions
from octavo.report.grids import sheets
from octavo.report.memo import remembered
from octavo.report.picture import heading, heat_grids
from octavo.report.text_file import make_directory_for_files, write_bytes

_LONGEST = 60


def write_charts(document: Document, directory: Path, kind: Literal["svg", "png"]) -> list[Path]:
    """Writes them below the directory and returns their paths. Raises HostError when one cannot be written."""
    document = remembered(document)
    make_directory_for_files(directory)
    found: list[Path] = []
    taken: set[str] = set()
    for words, chart in every_chart(document):
        name = file_name(words)
        number = 2
        while name in taken:
            name, number = f"{file_name(words)}-{number}", number + 1
        taken.add(name)
        found.append(write_bytes(chart.file(kind), directory / f"{name}.{kind}"))
    return found


def every_chart(document: Document) -> Iterator[tuple[list[str], Chart | LinePanel]]:
    """The charts with the words of their names: what, which condition, which metric, which item."""
    metric = str(document["run"]["primary_metric"])
    by_condition: dict[str, Callable[[Document, Theme], Chart | None]] = {"points": chart_trials.points}
    whole: dict[str, Callable[[Document, Theme], Chart | None]] = {"run": chart_run.over_time, "drift": chart_run.drift}
    for condition in conditions(document):
        one = of_condition(document, condition)
        for what, draw in by_condition.items():
            if chart := draw(one, PLAIN):
                yield [what, condition, metric], chart
    for what, draw in whole.items():
        if chart := draw(document, PLAIN):
            yield [what, metric], chart
    for grid in heat_grids(document):
        named = " · ".join(filter(None, (heading(document), grid.title)))
        yield ["heatmap", grid.title, metric], grid_chart(grid, named)
    for sheet in sheets(document):
        for grid in ([sheet.whole] if sheet.whole else []) + sheet.items:
            yield (
                ["items", sheet.title.partition(",")[0], metric, grid.title],
                grid_chart(grid, f"{grid.title} · {sheet.title}"),
            )
    for condition, figure, chart in series_charts(document):
        yield ["series", condition, figure], chart


def of_condition(document: Document, condition: str) -> dict[str, Any]:
    """The document with the cells, trials and numbers of one condition only."""
    mine = [cell for cell in document["cells"] if cell["condition"] == condition]
    ids = {cell["id"] for cell in mine}
    own = {name: [row for row in document[name] if row["cell"] in ids] for name in ("trials", "summary", "effects")}
    return {**document, "cells": mine, **own}


def file_name(words: list[str]) -> str:
    """A file's name without its end: nothing that a shell or another system reads as more than a name.

    >>> file_name(["heatmap", "first run", "seconds", "../q1"])
    'heatmap-first-run-seconds-q1'
    """
    parts = [re.sub(r"[^A-Za-z0-9_]+", "-", clean(word)).strip("-")[:_LONGEST].strip("-") for word in words]
    return "-".join(part for part in parts if part)
