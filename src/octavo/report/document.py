"""Queries on the report document: conditions, cells, effects, uncounted trials.

The document is the plain dict that `octavo.analysis` makes. Nothing here changes it or computes statistics.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from octavo.report.memo import once
from octavo.text import one_line

Document = Mapping[str, Any]
Row = Mapping[str, Any]
Key = tuple[str, str, str | None]

SIGNS = {"better": "▲", "worse": "▼", "same": "=", "undecided": "?", "more": "+", "less": "−", "none": "·"}
PER_TRANSACTION = (
    ("wal_bytes_per_transaction", "WAL/tx"),
    ("device_read_bytes_per_transaction", "read/tx"),
    ("device_written_bytes_per_transaction", "written/tx"),
)
# Of more cells than these a table or a chart shows some first.
MOST_ROWS = 16
SCALE = {"": 0, "b": 0, "kb": 10, "mb": 20, "gb": 30, "tb": 40}


@dataclass(frozen=True)
class LeftOut:
    """Trials that were not counted, of one status and by one rule; the reason is the first one's."""

    status: str
    reason: str
    trials: list[Row]


def clean(text: object) -> str:
    """Text on one line without control characters (a name may hold an escape sequence).

    >>> clean("a\\x1b[31mb\\nc")
    'a�[31mb c'
    """
    return one_line(text)


def clip(text: object, length: int) -> str:
    """At most so many characters of a text, with an ellipsis when some are gone.

    >>> clip("octavo", 6), clip("octavo", 4)
    ('octavo', 'oct…')
    """
    whole = str(text)
    return whole if len(whole) <= length else whole[: length - 1] + "…"


@once
def conditions(document: Document) -> list[str]:
    """The conditions, in the order of the cells."""
    return list(dict.fromkeys(cell["condition"] for cell in document["cells"]))


def cells(document: Document, condition: str) -> list[Row]:
    """The cells of a condition."""
    return _cells(document).get(condition, [])


@once
def _cells(document: Document) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for cell in document["cells"]:
        found.setdefault(cell["condition"], []).append(cell)
    return found


def main_cells(document: Document, condition: str) -> tuple[list[Row], list[Row]]:
    """The cells of a condition that are shown first, and the rest.

    Of many: the baseline, its control, and what differs from it in one factor only; else as many as there is room for.
    """
    every = cells(document, condition)
    if len(every) <= MOST_ROWS:
        return every, []
    levels_of = next((cell["levels"] for cell in every if cell["baseline"]), every[0]["levels"])
    names = compared(document)
    first = [cell for cell in every if sum(cell["levels"].get(name) != levels_of.get(name) for name in names) <= 1]
    if len(first) > MOST_ROWS:
        first = [cell for cell in every if cell["baseline"]] + [cell for cell in every if not cell["baseline"]]
        first = first[:MOST_ROWS]
    kept = {cell["id"] for cell in first}
    return [cell for cell in every if cell["id"] in kept], [cell for cell in every if cell["id"] not in kept]


def is_imported(document: Document) -> bool:
    """Whether it was measured elsewhere: it has no seed, and of its machine only what its files contain is known."""
    return "imported" in document["environment"]


@once
def factors(document: Document) -> list[str]:
    """Every factor that a cell names."""
    return list(dict.fromkeys(name for cell in document["cells"] for name in cell["levels"]))


@once
def levels(document: Document, factor: str) -> list[str]:
    """The levels of a factor: sizes and numbers in ascending order, others as they come."""
    found = list(dict.fromkeys(str(c["levels"][factor]) for c in document["cells"] if factor in c["levels"]))
    keys = [magnitude(level) for level in found]
    if any(key is None for key in keys):
        return found
    return sorted(found, key=lambda level: magnitude(level) or 0)


def magnitude(level: str) -> float | None:
    """A level as a number (bytes for a size), or None for a word.

    >>> magnitude("8kB"), magnitude("16"), magnitude("read-only")
    (8192.0, 16.0, None)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", level.strip(), re.IGNORECASE)
    if match is None or match[2].lower() not in SCALE:
        return None
    return float(match[1]) * 2 ** SCALE[match[2].lower()]


@once
def compared(document: Document) -> list[str]:
    """The factors that differ between cells of one condition; the data block comes first."""
    found: list[str] = []
    for factor in factors(document):
        for condition in conditions(document):
            if len({cell["levels"].get(factor) for cell in cells(document, condition)}) > 1:
                found.append(factor)
                break
    return sorted(found, key=lambda factor: factor != "data_block")


def by_key(rows: Iterable[Row]) -> dict[Key, Row]:
    """Rows (summary or effects) by cell, metric and item."""
    return {(row["cell"], row["metric"], row.get("item")): row for row in rows}


@once
def effects_by_key(document: Document) -> dict[Key, Row]:
    """The effects by cell, metric and item."""
    return by_key(document["effects"])


@once
def summaries(document: Document) -> dict[Key, Row]:
    """The values of cells by cell, metric and item."""
    return by_key(document["summary"])


@once
def noise(document: Document, condition: str) -> Row | None:
    """The noise floor of the primary metric in a condition, when there was an A/A pair."""
    primary = document["run"]["primary_metric"]
    for row in document["noise_floor"]:
        if row["condition"] == condition and row["metric"] == primary and row.get("item") is None:
            return row
    return None


def tone(effect: Row | None) -> str:
    """The tone of a verdict, as one of the keys of SIGNS.

    >>> tone({"verdict": "faster"}), tone({"verdict": "same within 3 %"}), tone(None)
    ('better', 'same', 'none')
    """
    words = str(effect["verdict"]).split() if effect else []
    first = words[0].strip(",.(") if words else ""
    meaning = {"faster": "better", "slower": "worse", "better": "better", "worse": "worse"}
    word = meaning.get(first, first)
    return word if word in SIGNS else "none"


@once
def measured(document: Document, *, items: bool) -> list[str]:
    """Metrics with a summary or an effect (of whole trials, or of single items), the primary one first."""
    rows = [*document["summary"], *document["effects"]]
    seen = {row["metric"] for row in rows if (row.get("item") is not None) == items}
    order = [document["run"]["primary_metric"], *document["metrics"], *sorted(seen)]
    return [metric for metric in dict.fromkeys(order) if metric in seen]


@once
def item_names(document: Document, metric: str) -> list[str]:
    """The items of a metric: q2 before q10, the steps of a load as they ran, others by their names."""
    rows = [*document["summary"], *document["effects"]]
    names = {str(row["item"]) for row in rows if row["metric"] == metric and row.get("item") is not None}
    steps = _load_steps(document)
    return sorted(names, key=lambda name: (steps.get(name, -1), _natural(name)))


@once
def _load_steps(document: Document) -> dict[str, int]:
    """The steps of a load in the order in which the first trial that has them ran them."""
    for trial in document["trials"]:
        items = [str(one["item"]) for one in trial["observations"] if one["item"] is not None]
        if found := dict.fromkeys(item for item in items if item.startswith("load.")):
            return {step: place for place, step in enumerate(found)}
    return {}


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorting key that reads runs of digits as numbers."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts if part]


def title(document: Document, metric: str) -> str:
    """The name of a metric for people."""
    return str(document["metrics"].get(metric, {}).get("title") or metric)


def better_direction(document: Document) -> str | None:
    """`higher` or `lower`: what is better of the primary metric; None where neither is."""
    return document["metrics"].get(document["run"]["primary_metric"], {}).get("better")


def words(factor: str) -> str:
    """The name of a factor for people.

    >>> words("wal_block"), words("data_block")
    ('WAL block', 'data block')
    """
    return " ".join("WAL" if word == "wal" else word for word in factor.split("_"))


def unit(document: Document, metric: str) -> str | None:
    """The unit of a metric."""
    return document["metrics"].get(metric, {}).get("unit")


@once
def attempted(document: Document) -> list[Row]:
    """The trials that were begun; a skipped cell has a note with the reason among the trials."""
    return [trial for trial in document["trials"] if trial["status"] != "skipped"]


@once
def left_out(document: Document) -> list[LeftOut]:
    """Trials not counted, grouped by status and rule, the largest group first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for trial in attempted(document):
        if not trial["used"]:
            groups.setdefault((trial["status"], rule_of(trial)), []).append(trial)
    found = [LeftOut(status, _reason(trials), trials) for (status, _), trials in groups.items()]
    return sorted(found, key=lambda group: -len(group.trials))


def _reason(trials: Sequence[Row]) -> str:
    """What the trials of a group have in common, or the first one's reason as an example."""
    reasons = dict.fromkeys(trial.get("reason") or "no reason is recorded" for trial in trials)
    first = next(iter(reasons))
    if reasons.keys() == {"no reason is recorded"} and all(trial["status"] == "ok" for trial in trials):
        return "measured, but its round was repeated"
    return first if len(reasons) == 1 else f"{first} (and the like)"


def facts_of(trial: Row) -> Row:
    """Further facts of a trial."""
    found: Row | None = trial.get("facts")
    return found or {}


def rule_of(trial: Row) -> str:
    """The key by which uncounted trials are grouped: the rule, else the reason without its figures.

    For an invalid trial that is the beginning of its reason, before limits and culprits, which differ from trial to
    trial.

    >>> rule_of({"status": "invalid", "reason": "3.1 % stolen (more than 2%), most by x"})
    '# % stolen'
    >>> rule_of({"status": "failed", "reason": "pgbench (pid 12) died"})
    'pgbench (pid #) died'
    """
    reason = trial.get("reason") or "no reason is recorded"
    start = re.split(r" \(|[,:;] ", reason)[0] if trial["status"] == "invalid" else reason
    return facts_of(trial).get("rule") or re.sub(r"\d[\d.,:]*", "#", start)


@once
def settings_that_differ(document: Document) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Settings with more than one value over the cells: name, the factor that it follows, and (where, value) pairs.

    Where one factor alone explains the values the pairs are that factor's levels, else they are cells.
    """
    settings: Mapping[str, Row] = document["environment"].get("settings", {})
    labels = {cell["id"]: cell["levels"] for cell in document["cells"]}
    found: list[tuple[str, str, list[tuple[str, str]]]] = []
    for name in sorted({name for values in settings.values() for name in values}):
        values = {cell: str(of.get(name, "(not set)")) for cell, of in settings.items()}
        if len(set(values.values())) < 2:
            continue
        for factor in factors(document):
            pairs = {(str(labels.get(cell, {}).get(factor)), value) for cell, value in values.items()}
            if len(pairs) == len({level for level, _ in pairs}):
                ordered = sorted(pairs, key=lambda pair: (magnitude(pair[0]) or 0, pair[0]))
                found.append((name, factor, ordered))
                break
        else:
            found.append((name, "cell", list(values.items())))
    return found
