"""Each cell's bottleneck, as a sentence for a condition and as the page's tables."""

from collections.abc import Iterator
from typing import Any

from octavo.analysis.cell_bottlenecks import NOTHING, describe
from octavo.report import numbers
from octavo.report.document import Document, Row, cells, clean, clip, conditions
from octavo.report.plain import spaced

LABEL = 60


def bottleneck_sentence(document: Document, condition: str) -> str | None:
    """The bottlenecks of a condition's cells; None where no trial saw a device."""
    labels = {cell["id"]: cell["label"] for cell in document["cells"] if not cell["control"]}
    groups: dict[str, list[str]] = {}
    for row in _rows(document, condition):
        if row["cell"] in labels:
            groups.setdefault(row["resource"], []).append(spaced(labels[row["cell"]]))
    if not groups:
        return None
    if groups.keys() == {NOTHING}:
        return "Neither the device nor the CPU was the bottleneck in any cell."
    where = [f"{named(what)} at {_listed(cells)}" for what, cells in groups.items()]
    return f"Bottlenecks: {'; '.join(where)}."


def named(resource: str) -> str:
    """A document's word for a bottleneck, as a reader's."""
    return "none" if resource == NOTHING else resource


def bottleneck_tables(document: Document) -> Iterator[dict[str, Any]]:
    """A table for each condition: use of the device and of the CPU by cell."""
    for condition in conditions(document):
        by_cell = {row["cell"]: row for row in _rows(document, condition)}
        rows = [
            {
                "label": clip(clean(cell["label"]), LABEL),
                "baseline": cell["baseline"],
                "control": cell["control"],
                "what": describe(by_cell[cell["id"]]),
                "entries": _entries(by_cell[cell["id"]]),
            }
            for cell in cells(document, condition)
            if cell["id"] in by_cell
        ]
        if rows:
            yield {"condition": condition, "heads": _HEADS, "rows": rows}


_HEADS = ("requests a second", "of the limit", "bytes a second", "of the limit", "device busy", "CPU", "database")


def _entries(row: Row) -> list[str]:
    return [
        numbers.significant(row["requests_per_second"]),
        numbers.percent(row["requests_share"]),
        numbers.size(row["bytes_per_second"]),
        numbers.percent(row["bytes_share"]),
        numbers.percent(row["device_busy_share"]),
        numbers.percent(row["cpu_share"]),
        numbers.size(row["database_bytes"]),
    ]


def _rows(document: Document, condition: str) -> list[Row]:
    return [row for row in document.get("bottlenecks", ()) if row["condition"] == condition]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
