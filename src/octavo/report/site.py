"""A static site of every run in the store: a list with question, answer and a thumbnail, and a page for each run.

It needs no network and no server, and has no script. Runs of one plan have a page that compares each with the one
before it. All text of a run is escaped.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from octavo.analysis.compare_document import make_comparison
from octavo.analysis.document import make_document
from octavo.analysis.shown_metrics import MOST_NUMBERS
from octavo.errors import HostError, OctavoError, UsageError
from octavo.plan.model import restore_plan
from octavo.report import compare_html, html
from octavo.report.answer import answer
from octavo.report.chart_colours import PLAIN, hexadecimal, variables, with_variables
from octavo.report.document import Document, clean, clip
from octavo.report.grids import Grid, colour
from octavo.report.memo import remembered
from octavo.report.page_template import environment, own, style
from octavo.report.picture import heat_grids
from octavo.report.site_directory import replacing_directory
from octavo.store.failures import content_of
from octavo.store.store import Store

INDEX = "index.html"
# A thumbnail has at most so many squares to each side.
_MOST_SQUARES = 24


@dataclass(frozen=True, slots=True)
class Listed:
    """A run in the list. `page` and `comparison` are paths in the site; `problem` is why it has no page."""

    id: str
    name: str
    status: str
    started: str
    question: str
    headline: str
    kind: str
    thumbnail: Markup
    page: str | None
    comparison: str | None
    earlier: str | None
    problem: str | None


def write_site(store: Store, runs: Sequence[str], target: Path, said: Callable[[str], None] = lambda _: None) -> Path:
    """Writes the site of these runs, newest first, replacing that of an earlier call, and returns its index.

    `said` gets each run as it begins. A run that cannot be shown is listed with the reason. Raises OctavoError.
    """
    if not runs:
        raise UsageError("no runs yet; start one with: octavo run oltp-blocks-demo")
    names = _file_names(runs)
    earlier = _earlier(store, runs)
    with replacing_directory(target) as directory:
        (directory / "runs").mkdir()
        (directory / "compare").mkdir()
        listed: list[Listed] = []
        for number, run in enumerate(runs, 1):
            said(f"{number} of {len(runs)}: {run}")
            listed.append(_write_run(store, run, earlier.get(run), names, directory))
        if not any((directory / "compare").iterdir()):
            (directory / "compare").rmdir()
        _write(directory / INDEX, _index(listed))
    return target.absolute() / INDEX


def _write_run(store: Store, run: str, before: str | None, names: dict[str, str], directory: Path) -> Listed:
    """The pages of one run, and what the list says of it."""
    page = f"runs/{names[run]}.html"
    comparison = _compare(store, before, run, names, directory) if before else None
    name, status = run, ""
    try:
        with content_of(run, store.address):
            record = store.run(run)
            name, status = str(record.name), str(record.status)
            document = remembered(make_document(store, run, most_numbers=MOST_NUMBERS))
            text = html.render(document, home=f"../{INDEX}")
            found = answer(document)
            headline, kind, thumbnail, problem = found.headline, found.kind, _thumbnail(document), None
            question, started = str(document["run"]["question"] or ""), str(document["run"]["started"])
        _write(directory / page, text)
    except HostError:
        raise
    except OctavoError as error:
        headline, kind, thumbnail, problem, page = "", "none", Markup(), clean(error), None
        question, started = "", ""
    return Listed(run, name, status, started, question, headline, kind, thumbnail, page, comparison, before, problem)


def _compare(store: Store, before: str, run: str, names: dict[str, str], directory: Path) -> str | None:
    """The page that compares a run with the one before it; None where they have nothing in common."""
    try:
        with content_of(run, store.address):
            text = compare_html.render(make_comparison(store, [before, run]))
    except OctavoError:
        return None
    path = f"compare/{names[run]}.html"
    _write(directory / path, text)
    return path


def _earlier(store: Store, runs: Sequence[str]) -> dict[str, str]:
    """For each run the run of the same plan before it: same name, workload, baseline and factors."""
    found: dict[str, str] = {}
    newest: dict[Any, str] = {}
    for run in reversed(runs):
        try:
            with content_of(run, store.address):
                plan = restore_plan(store.run(run).plan)
        except OctavoError:  # its line in the list says why it has no page
            continue
        key = plan.name, plan.workload, repr(plan.baseline), repr(plan.factors)
        if key in newest:
            found[run] = newest[key]
        newest[key] = run
    return found


def _file_names(runs: Sequence[str]) -> dict[str, str]:
    """A name for each run that is a file's and nothing more, and its own."""
    found: dict[str, str] = {}
    for run in runs:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", run).strip("-.")[:100] or "run"
        name, number = plain, 2
        while name in found.values():
            name, number = f"{plain}-{number}", number + 1
        found[run] = name
    return found


def _thumbnail(document: Document) -> Markup:
    """The heatmap with the most squares, the first of these, without its figures; empty where there is none."""
    found = heat_grids(document)
    return _squares(max(found, key=lambda grid: len(grid.rows) * len(grid.columns))) if found else Markup()


def _squares(grid: Grid) -> Markup:
    rows = [squares[:_MOST_SQUARES] for _, squares in grid.rows[:_MOST_SQUARES]]
    width, height = max(len(row) for row in rows), len(rows)
    drawn = [
        f'<rect x="{x}" y="{y}" width=".9" height=".9" rx=".12" fill="{hexadecimal(colour(square.step, PLAIN))}"/>'
        for y, row in enumerate(rows)
        for x, square in enumerate(row)
        if square is not None
    ]
    box = f'viewBox="0 0 {width} {height}" preserveAspectRatio="xMinYMin"'
    svg = f'<svg {box} role="img" aria-label="heatmap">{"".join(drawn)}</svg>'
    return own(with_variables(svg))


def _index(listed: Sequence[Listed]) -> str:
    templates = environment("octavo.report", clean=clean, clip=clip, whole=html.whole, moment=html.moment)
    text = templates.get_template("site.html.j2").render(listed=listed, style=style())
    return text.replace("<style>", f"<style>{variables(text)}", 1)


def _write(path: Path, text: str) -> None:
    """A new file in the directory that only we can enter."""
    with path.open("x", encoding="utf-8", errors="replace") as file:
        file.write(text)
