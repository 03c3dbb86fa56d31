"""Every observation as one CSV row, for people who do their own statistics."""

import csv
import io
from collections.abc import Iterable
from typing import Any, TextIO

from octavo.report.document import Document, factors
from octavo.text import csv_cell

BEFORE = ("trial", "round", "part", "attempt", "position", "load", "cell")
AFTER = ("status", "used", "item", "repetition", "metric", "value", "unit")


def columns(document: Document) -> tuple[list[str], list[str]]:
    """The factors, and the names of their columns (a factor named like a fixed column gets a prefix)."""
    names = factors(document)
    taken = {*BEFORE, *AFTER}
    return names, [f"factor_{name}" if name in taken else name for name in names]


def render(document: Document) -> str:
    """A header line and one line an observation; values are printed with all their digits."""
    out = io.StringIO()
    write(document, out)
    return out.getvalue()


def write(document: Document, out: TextIO) -> None:
    """The same, written as it is made. `csv` prints a float as `repr` does: with all its digits."""
    names, headings = columns(document)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_cells([*BEFORE, *headings, *AFTER]))
    for trial in document["trials"]:
        levels = [trial["levels"].get(name) for name in names]
        used = "true" if trial["used"] else "false"
        start = _cells([trial["id"], *(trial.get(key) for key in BEFORE[1:]), *levels, trial["status"], used])
        writer.writerows(
            [*start, *_cells([seen["item"], seen["repetition"], seen["metric"], seen["value"], seen["unit"]])]
            for seen in trial["observations"]
        )


def _cells(values: Iterable[Any]) -> list[Any]:
    return [csv_cell(value) for value in values]
