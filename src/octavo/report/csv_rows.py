"""Every observation as one CSV row, for people who do their own statistics."""

import csv
import io

from octavo.report.document import Document, factors

BEFORE = ("trial", "round", "attempt", "position", "load", "cell")
AFTER = ("status", "used", "item", "repetition", "metric", "value", "unit")


def columns(document: Document) -> tuple[list[str], list[str]]:
    """The factors, and the names of their columns (a factor named like a fixed column gets a prefix)."""
    names = factors(document)
    taken = {*BEFORE, *AFTER}
    return names, [f"factor_{name}" if name in taken else name for name in names]


def render(document: Document) -> str:
    """A header line and one line an observation; values are printed with all their digits."""
    names, headings = columns(document)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*BEFORE, *headings, *AFTER])
    for trial in document["trials"]:
        start = [trial["id"], *(trial.get(key) for key in BEFORE[1:])]
        levels = [trial["levels"].get(name) for name in names]
        used = "true" if trial["used"] else "false"
        for seen in trial["observations"]:
            value = seen["value"]
            writer.writerow(
                [
                    *start,
                    *levels,
                    trial["status"],
                    used,
                    seen["item"],
                    seen["repetition"],
                    seen["metric"],
                    repr(value) if isinstance(value, float) else value,
                    seen["unit"],
                ]
            )
    return out.getvalue()
