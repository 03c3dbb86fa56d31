"""The contents of the page's verdicts and tables as text; the template only arranges it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from octavo.report import numbers
from octavo.report.bottlenecks import named
from octavo.report.document import (
    SIGNS,
    Document,
    Key,
    Row,
    cells,
    clean,
    clip,
    conditions,
    effects_by_key,
    item_names,
    main_cells,
    measured,
    summaries,
    title,
    tone,
    unit,
)
from octavo.report.run_history import absent, negative_controls, steps
from octavo.report.sentences import noise_sentence, tally, verdicts_of
from octavo.report.slices import slices
from octavo.report.statistical_model import model, model_rows

LABEL = 60
_CONDITIONS_SHOWN = 6
_ROWS_SHOWN = 60


def verdict_table(document: Document, condition: str) -> dict[str, Any]:
    """The cells of a condition with their verdicts: `rows` are shown first, `more` are the others. Controls of either
    kind are not included."""
    summary, effects = summaries(document), effects_by_key(document)
    primary, negative, missing = document["run"]["primary_metric"], negative_controls(document), absent(document)
    bottlenecks = {row["cell"]: named(row["resource"]) for row in document.get("bottlenecks", ())}

    def row_of(cell: Row) -> dict[str, Any]:
        key = (cell["id"], primary, None)
        entry = _entry(key, dict(cell) | {"missing": missing.get(cell["id"])}, summary, effects, long=True)
        return entry | {
            "label": clip(clean(cell["label"]), LABEL),
            "baseline": cell["baseline"],
            "bottleneck": bottlenecks.get(cell["id"], ""),
        }

    rows, more = (
        [row_of(cell) for cell in shown if not cell["control"] and cell["id"] not in negative]
        for shown in main_cells(document, condition)
    )
    return {
        "condition": condition,
        "rows": rows,
        "more": more,
        "tally": tally(document, condition),
    }


def unfolded(tables: Sequence[Mapping[str, Any]]) -> int:
    """How many of the conditions' tables are shown without being asked for: six, or more while they are short.

    >>> unfolded([{"rows": ["cell"] * 6}] * 9), unfolded([{"rows": ["cell"] * 20}] * 9)
    (9, 6)
    """
    rows = accumulate(len(table["rows"]) for table in tables)
    return max(_CONDITIONS_SHOWN, sum(1 for count in rows if count <= _ROWS_SHOWN))


def controls(document: Document, condition: str) -> dict[str, Any]:
    """The results of a condition's controls: the noise floor, and a sentence for each negative control."""
    negative = negative_controls(document)
    sentences = [one["sentence"] for one in verdicts_of(document, condition) if one["cell"] in negative]
    return {"condition": condition, "noise": noise_sentence(document, condition), "negative": sentences}


def sentences(document: Document, condition: str) -> list[dict[str, str]]:
    """The verdicts of a condition as sentences, those of controls left out."""
    effects, negative = effects_by_key(document), negative_controls(document)
    found: list[dict[str, str]] = []
    for verdict in verdicts_of(document, condition):
        if verdict["cell"] not in negative:
            kind = tone(effects.get((verdict["cell"], verdict["metric"], verdict.get("item"))))
            found.append({"sentence": verdict["sentence"], "tone": kind, "sign": SIGNS[kind]})
    return found


def statistical_model(document: Document, condition: str) -> dict[str, Any] | None:
    """The model behind a condition's intervals, and the history of each cell's verdict; None if neither is known."""
    row, found = model(document, condition), steps(document, condition)
    if row is None and not found:
        return None
    rows = model_rows(row) if row else []
    if by_turns := slices(document, condition):
        rows.append(("slices", by_turns))
    return {"condition": condition, "model": rows, "steps": found}


def _columns(document: Document, shown: Iterable[Row]) -> list[dict[str, Any]]:
    missing, negative = absent(document), negative_controls(document)
    return [
        {
            "label": clip(clean(cell["label"]), LABEL),
            "baseline": cell["baseline"],
            "control": cell["control"],
            "negative": cell["id"] in negative,
            "missing": missing.get(cell["id"]),
            "id": cell["id"],
        }
        for cell in shown
    ]


def _short(effect: Row | None, *, long: bool) -> str:
    """The verdict of a table entry; what is needed to decide is said once, with the primary metric."""
    if effect is None:
        return "no estimate"
    return str(effect["verdict"]) if long else str(effect["verdict"]).split(" (")[0]


def _range(row: Row) -> str:
    low, high = (numbers.amount(row[end], row["unit"]) for end in ("low_trial", "high_trial"))
    return f"{low} to {high}"


def _entry(
    key: Key, cell: Row, summary: dict[Key, Row], effects: dict[Key, Row], *, long: bool = False
) -> dict[str, Any]:
    """One number of a table: the value with its range over trials, and the ratio with its verdict."""
    row, effect = summary.get(key), effects.get(key)
    kind = tone(effect)
    return {
        "value": numbers.amount(row["value"], row["unit"]) if row else numbers.MISSING,
        "range": _range(row) if row else "",
        "trials": row["trials"] if row else 0,
        "ratio": numbers.ratio_interval(effect["ratio"], effect["low"], effect["high"]) if effect else "",
        "verdict": "baseline" if cell["baseline"] else _short(effect, long=long),
        "missing": cell["missing"] if row is None else None,
        "tone": kind,
        "sign": SIGNS[kind],
    }


def metric_table(document: Document, condition: str) -> dict[str, Any]:
    """Cells down, metrics across: the value and below it the ratio to the baseline with its interval.

    `rows` are the cells that are shown first, `more` the others.
    """
    summary, effects = summaries(document), effects_by_key(document)
    primary = document["run"]["primary_metric"]
    here = [cell["id"] for cell in cells(document, condition)]
    names = [
        name
        for name in measured(document, items=False)
        if name == primary or any((cell, name, None) in summary for cell in here)
    ]
    rows, more = (
        [
            column
            | {"entries": [_entry((column["id"], n, None), column, summary, effects, long=n == primary) for n in names]}
            for column in _columns(document, shown)
        ]
        for shown in main_cells(document, condition)
    )
    heads = [{"title": clip(clean(title(document, n)), LABEL), "unit": unit(document, n)} for n in names]
    return {"condition": condition, "heads": heads, "rows": rows, "more": more}


def item_tables(document: Document) -> Iterable[dict[str, Any]]:
    """Items (queries, load steps) down, cells across, for every metric measured by item; of many cells in two parts,
    the second of which is `more`. `decided` counts the entries that differ, or are the same, beyond doubt."""
    summary, effects = summaries(document), effects_by_key(document)
    for name in measured(document, items=True):
        for condition in conditions(document):
            here = {cell["id"] for cell in cells(document, condition)}
            items = [item for item in item_names(document, name) if any((c, name, item) in summary for c in here)]
            for more, shown in enumerate(main_cells(document, condition)):
                columns = _columns(document, shown)
                if not (columns and items):
                    continue
                rows = [
                    {"item": item, "entries": [_entry((c["id"], name, item), c, summary, effects) for c in columns]}
                    for item in items
                ]
                yield {
                    "title": clip(clean(title(document, name)), LABEL),
                    "condition": condition,
                    "columns": columns,
                    "rows": rows,
                    "more": bool(more),
                    "decided": sum(
                        tone(effects.get((column["id"], name, item))) not in ("undecided", "none")
                        for column in columns
                        for item in items
                    ),
                }
