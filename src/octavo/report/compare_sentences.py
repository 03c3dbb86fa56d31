"""Texts of every format of a comparison: rows, and the sentences of conclusion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from octavo.analysis.plan_identity import letter
from octavo.report import numbers
from octavo.report.document import Row, clean
from octavo.units import human_count

Comparison = Mapping[str, Any]
TONES = {word: word for word in ("better", "worse", "more", "less", "same")} | {
    "faster": "better", "gains": "better", "slower": "worse",
}  # fmt: skip
_MOST_CANCELLED = 3
_MORE = "more rounds or loads would help"


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One cell (or item of a cell) in a comparison of two runs, as text."""

    cell: str
    reference: str
    value: str
    ratio: str
    verdict: str
    tone: str
    effect: str
    effect_verdict: str
    effect_tone: str


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """The lines of one run against the reference in one condition."""

    run: str
    condition: str
    lines: list[ComparisonRow]


def names(document: Comparison) -> dict[str, str]:
    """The letters of runs, by id: A is the reference."""
    return {run["id"]: letter(place) for place, run in enumerate(document["runs"])}


def tables(document: Comparison) -> list[ComparisonTable]:
    """The primary metric of whole trials; of items where no trial has one of its own."""
    metric = document["primary_metric"]
    unit = document["metrics"][metric].get("unit")
    rows = [row for row in document["comparisons"] if row["metric"] == metric]
    if any(row["item"] is None and row["kind"] == "value" for row in rows):
        rows = [row for row in rows if row["item"] is None]
    effects = {_key(row): row for row in rows if row["kind"] == "effect"}
    found: dict[tuple[str, str], list[ComparisonRow]] = {}
    for row in rows:
        if row["kind"] == "value":
            line = _line(row, effects.get(_key(row)), unit)
            found.setdefault((row["run"], row["condition"]), []).append(line)
    return [ComparisonTable(run, condition, lines) for (run, condition), lines in found.items()]


def _key(row: Row) -> tuple[Any, ...]:
    return row["run"], row["condition"], row["cell"], row["item"]


def _line(row: Row, effect: Row | None, unit: str | None) -> ComparisonRow:
    item = f" {clean(row['item'])}" if row["item"] else ""
    regression = {"yes": ", a regression", "no": "", "undecided": ", regression undecided"}.get(
        str(row.get("regression")), ""
    )
    return ComparisonRow(
        cell=f"{clean(row['cell'])}{item}",
        reference=numbers.amount(row["from"], unit),
        value=numbers.amount(row["to"], unit),
        ratio=numbers.ratio_interval(row["ratio"], row["low"], row["high"]),
        verdict=f"{row['verdict']}{regression}",
        tone=tone(row["verdict"]),
        effect="" if effect is None else f"{numbers.ratio(effect['from'])} → {numbers.ratio(effect['to'])}",
        effect_verdict="" if effect is None else str(effect["verdict"]),
        effect_tone="none" if effect is None else tone(effect["verdict"]),
    )


def tone(verdict: str) -> str:
    """The tone of a verdict, by which reports colour it.

    >>> tone("gains less"), tone("same within 3 %"), tone("undecided (no interval)")
    ('worse', 'same', 'undecided')
    """
    first, _, rest = verdict.partition(" ")
    return "worse" if (first, rest) == ("gains", "less") else TONES.get(first, "undecided")


def conclusion(document: Comparison) -> str:
    """The decisions, in a few sentences."""
    late: list[Row] = document["newly_cancelled"]
    regressions = [row for row in late if row.get("regression") == "yes"]
    others = [row for row in late if row not in regressions]
    sentences = [
        _regressions(document) if document["regressions"] else "",
        f"Regression: newly {_cancelled(regressions, document)}." if regressions else "",
        "" if document["regressions"] else _tally(document, regressions=bool(regressions)),
        f"Newly {_cancelled(others, document)}." if others else "",
    ]
    return " ".join(filter(None, sentences))


def _regressions(document: Comparison) -> str:
    margin: float = document["fail_on"]["regression"]
    first = document["regressions"][0]
    many = len(document["regressions"])
    where = f"{clean(first['condition'])}: " if first["condition"] else ""
    others = f", and {many - 1} more" if many > 1 else ""
    return (
        f"Regression of more than {numbers.percent(margin)} in {many} of "
        f"{human_count(document['compared'], 'comparison')}: {where}{clean(first['cell'])} "
        f"× {numbers.ratio_interval(first['ratio'], first['low'], first['high'])}{others}."
    )


def _cancelled(rows: Sequence[Row], document: Comparison) -> str:
    """What newly reaches its time limit, the first three in full.

    >>> row = {"run": "b", "condition": "", "cell": "4kB", "item": "q17", "limit": 60.0, "longest": 41.2,
    ...        "cancelled": 2, "trials": 3}
    >>> _cancelled([row], {"runs": [{"id": "a"}, {"id": "b"}]})
    'cancelled at the time limit: 4kB q17 in 2 of 3 trials (limit 1 min; A: at most 41.2 s)'
    """
    letters = names(document)
    texts: list[str] = []
    for row in rows[:_MOST_CANCELLED]:
        where = f"{clean(row['condition'])}: " if row["condition"] else ""
        run = f" of {letters[row['run']]}" if len(letters) > 2 else ""
        item = f" {clean(row['item'])}" if row["item"] else ""
        limit = "" if row["limit"] is None else f"limit {numbers.seconds(row['limit'])}; "
        texts.append(
            f"{where}{clean(row['cell'])}{item} in {row['cancelled']} of {human_count(row['trials'], 'trial')}{run} "
            f"({limit}A: at most {numbers.seconds(row['longest'])})"
        )
    more = f"; and {len(rows) - _MOST_CANCELLED} more" if len(rows) > _MOST_CANCELLED else ""
    return f"cancelled at the time limit: {'; '.join(texts)}{more}"


def _tally(document: Comparison, *, regressions: bool) -> str:
    """What the comparisons gave without a regression among them; `regressions`: whether there are others."""
    cells = human_count(document["compared"], "comparison")
    if not document["decided"] and all(word.startswith("undecided") for word in document["tally"]):
        lines = [line for table in tables(document) for line in table.lines]
        if lines and all(line.verdict.startswith("undecided (no noise floor") for line in lines):
            return (
                f"Nothing could be decided: the controls of a run give no noise floor ({cells}). More rounds, or "
                "octavo run --retry-failed RUN where they failed, would help."
            )
        return f"Nothing could be decided: no interval is narrow enough ({cells}). More rounds or loads would help."
    tally = ", ".join(f"{count} {word}" for word, count in sorted(document["tally"].items(), key=lambda pair: -pair[1]))
    text = f"Of {cells}: {tally}."
    if document["fail_on"] and not regressions:
        margin = numbers.percent(document["fail_on"]["regression"])
        if not document["decided"]:
            return f"{text} A regression of more than {margin} is neither found nor excluded in any of them: {_MORE}."
        open_ones = document["compared"] - document["decided"]
        text += f" No regression of more than {margin} is decided"
        text += f"; {open_ones} could not be decided." if open_ones else "."
    return text


def left_out(document: Comparison) -> list[str]:
    """Cells that only one run has, or has valid trials of, in sentences."""
    letters = names(document)
    return [
        f"{words} {letters[one['run']]}, so not compared: {_first_six(one['cells'])}."
        for key, words in (("only_in", "Only in"), ("not_valid", "No valid trial in"))
        for one in document[key]
    ]


def _first_six(cells: Sequence[str]) -> str:
    more = f" and {len(cells) - 6} more" if len(cells) > 6 else ""
    return f"{', '.join(map(clean, cells[:6]))}{more}"


def differences(document: Comparison) -> tuple[list[str], list[Sequence[str]]]:
    """The differences between the runs, as a table: heads and rows."""
    heads = ["", *names(document).values()]
    return heads, [[clean(row["what"]), *(_shown_fact(row["what"], value) for value in row["values"])]
                   for row in document["differences"]]  # fmt: skip


def _shown_fact(what: str, value: str | None) -> str:
    if value is None:
        return numbers.MISSING
    if what == "memory_bytes":
        return ", ".join(numbers.size(float(one)) for one in value.split(", "))
    return clean(value)
