"""The answer of a run in one sentence, made from all of its cells, and a line for each condition below it.

It has the best levels, those indistinguishable from the best, the loss of the baseline, and the bottleneck. It is
computed from the effects and verdicts of the document, and decides nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from octavo.observation import title_in_prose, verdict_terms
from octavo.plan.condition_text import capital
from octavo.report import numbers
from octavo.report.document import (
    Document,
    Row,
    by_key,
    cells,
    clean,
    compared,
    conditions,
    effects_by_key,
    title,
    tone,
)
from octavo.report.memo import once
from octavo.report.plain import condition_text, group_text, is_plural, quoted, spaced
from octavo.report.run_history import negative_controls
from octavo.units import human_count

Kind = Literal["better", "best", "same", "undecided", "none"]

# Conditions that have a line each; of more a sentence counts them.
FEW_CONDITIONS = 6
_MOST_LOSERS, _MOST_NAMED = 8, 4
# A gain from here on is said as a factor, a smaller one in percent.
_AS_FACTOR = 1.25
# What is left of a rate below this is said as a factor: −99.7 % would be −100 %.
_AS_PART = 0.1
# Levels that say nothing without their factor.
_WORDS = frozenset({"off", "on", "yes", "no", "none", "never", "always", "as-found"})
_BOTTLENECKS = {
    "bytes": "the device's bandwidth",
    "requests": "the device's requests per second",
    "requests and bytes": "the device's requests and bandwidth",
    "CPU": "the CPU",
    "latency": "the device's latency",
}


@dataclass(frozen=True, slots=True)
class ConditionAnswer:
    """One condition: `claim` is a clause without its condition, `details` are whole sentences.

    `kind`: a cell is better than the baseline, the baseline is best, all are the same, undecided, or none measured.
    `gain` is how many times better the best cell is; `best` the labels of the cells that are best, or whose
    intervals overlap the best one's.
    """

    condition: str
    kind: Kind
    claim: str
    details: tuple[str, ...]
    gain: float
    best: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The beginning of the report: one `headline`, and `lines` with a sentence each."""

    headline: str
    lines: tuple[str, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class _Entry:
    """A compared cell; above 1 is better, whichever way the metric goes. `lacking`: why nothing could be decided,
    whatever its numbers; empty where an analysis has judged its interval."""

    cell: Row
    gain: float
    low: float | None
    high: float | None
    tone: str
    lacking: str


@once
def answer(document: Document) -> Answer:
    """The answer of a run, finished or not."""
    found = answers(document)
    known = [one for one in found if one.kind != "none"]
    if not known:
        return Answer(f"No answer yet: {_why_none(document)}.", (), "none")
    if len(known) == 1:
        (only,) = known
        return Answer(_sentence(only, named=False), only.details, only.kind)
    leading = known[0] if document.get("best_of") else max(known, key=_weight)
    others = [one for one in known if one is not leading]
    if len(known) <= FEW_CONDITIONS:
        lines = [*leading.details, *(_sentence(one, named=True) for one in others)]
        return Answer(_headline(leading), tuple(lines), leading.kind)
    return _of_many(document, known, max(known, key=_weight))


@once
def answers(document: Document) -> list[ConditionAnswer]:
    """The answer in each condition; that of the shortest runs first, where a run has them."""
    found: list[ConditionAnswer] = []
    if best := document.get("best_of"):
        cell_of = {one["of"][0]: one["id"] for one in best["cells"]}
        rows = [cell | {"id": cell_of[cell["id"]]} for cell in document["cells"] if cell["id"] in cell_of]
        negative = {effect["cell"] for effect in best["effects"] if effect["negative_control"]}
        name = f"the shortest run of each {'query' if _are_queries(document) else 'item'}"
        found.append(_answer(document, name, rows, by_key(best["effects"]), negative))
    for condition in conditions(document):
        rows = cells(document, condition)
        found.append(_answer(document, condition, rows, effects_by_key(document), negative_controls(document)))
    return found


def _are_queries(document: Document) -> bool:
    items = [row["item"] for row in document["best_of"]["effects"] if row["item"] is not None]
    return bool(items) and all(str(item).startswith("q") for item in items)


def _answer(
    document: Document, condition: str, rows: Sequence[Row], effects: Mapping[Any, Row], negative: set[str]
) -> ConditionAnswer:
    entries = _entries(document, rows, effects, negative)
    baseline = next((cell for cell in rows if cell["baseline"]), None)
    if baseline is None or not entries:
        return ConditionAnswer(condition, "none", "", (), 1.0, ())
    better = [entry for entry in entries if entry.tone in ("better", "more")]
    worse = [entry for entry in entries if entry.tone in ("worse", "less")]
    open_ones = [entry for entry in entries if entry.tone == "undecided"]
    if better:
        best = max(better, key=lambda entry: entry.gain)
        chosen = _as_good(best, entries)
        claim = f"{group_text(document, [one.cell for one in chosen])} {_effect(document, chosen, baseline)}"
        details = [*_interval(document, best, chosen), *_losers(document, worse), *_open(open_ones, entries)]
        return ConditionAnswer(
            condition, "better", claim + _because(document, best.cell, baseline), tuple(details), best.gain,
            tuple(str(one.cell["label"]) for one in sorted(chosen, key=lambda one: -one.gain)),
        )  # fmt: skip
    name = cell_name(document, baseline)
    if not worse:
        kind: Kind = "same" if not open_ones else "undecided"
        claim = _no_difference(document, entries, open_ones, baseline) + _because(document, entries[0].cell, baseline)
        return ConditionAnswer(condition, kind, claim, tuple(_open(open_ones, entries)), 1.0, (str(baseline["label"]),))
    rest = [entry for entry in entries if entry.tone != "worse"]
    verb = "are" if _plural(document) else "is"
    claim = f"nothing is {_good_word(document)} than {name}" if rest else f"{name} {verb} the {_best_word(document)}"
    same = [entry.cell for entry in rest if entry.tone == "same"]
    details = [f"{capital(group_text(document, same))} {'are' if len(same) > 1 or verb == 'are' else 'is'} "
               f"the same within {numbers.percent(document['run']['threshold'])}."] if same else []  # fmt: skip
    details += [*_losers(document, worse), *_open(open_ones, entries)]
    return ConditionAnswer(condition, "best", claim, tuple(details), 1.0, (str(baseline["label"]),))


def _entries(document: Document, rows: Sequence[Row], effects: Mapping[Any, Row], negative: set[str]) -> list[_Entry]:
    metric, lower = document["run"]["primary_metric"], _about(document).get("better") == "lower"
    found: list[_Entry] = []
    for cell in rows:
        effect = effects.get((cell["id"], metric, None))
        if cell["baseline"] or cell["control"] or cell["id"] in negative or effect is None or not effect["ratio"]:
            continue
        ratio, low, high = effect["ratio"], effect["low"], effect["high"]
        if lower:
            ratio, low, high = 1 / ratio, high and 1 / high, low and 1 / low
        found.append(_Entry(cell, ratio, low or None, high or None, tone(effect), _lacking(effect)))
    return found


def _lacking(effect: Row) -> str:
    verdict = str(effect["verdict"])
    if verdict.endswith(" of the control)"):
        return "no noise floor, because the control has no interval"
    if not effect["low"]:
        return "too few rounds for an interval"
    return "too few rounds for a first analysis" if verdict.endswith(" for a first analysis)") else ""


def _as_good(best: _Entry, entries: Sequence[_Entry]) -> list[_Entry]:
    """The best one, and those whose intervals overlap its own: the run cannot tell them apart."""
    if best.low is None:
        return [best]
    bound = best.low
    return [
        one for one in entries if one is best or (one.tone == "better" and one.high is not None and one.high >= bound)
    ]


def _effect(document: Document, chosen: Sequence[_Entry], baseline: Row) -> str:
    """What the chosen cells do, against the baseline."""
    gains = sorted({min(one.gain for one in chosen), max(one.gain for one in chosen)})
    about, what = _about(document), _noun(document)
    than = cell_name(document, baseline, alone=_any_second(document, [one.cell for one in chosen]))
    plural = _plural(document) or len(chosen) > 1
    if about.get("better") == "lower":
        verb = "take" if "slower" in verdict_terms(about) else "have"
        verb = verb if plural else {"take": "takes", "have": "has"}[verb]
        if gains[-1] >= 10:
            parts = dict.fromkeys(_times(1 / gain) for gain in reversed(gains))
            return f"{verb} {' to '.join(parts)} of the {what} of {than}"
        return f"{verb} {_percents([1 - 1 / gain for gain in gains])} less {what} than {than}"
    verb = ("give" if plural else "gives") if "slower" in verdict_terms(about) else ("have" if plural else "has")
    if gains[-1] < _AS_FACTOR:
        return f"{verb} {_percents([gain - 1 for gain in gains])} more {what} than {than}"
    return f"{verb} {' to '.join(dict.fromkeys(map(_times, gains)))} times the {what} of {than}"


def _losers(document: Document, worse: Sequence[_Entry]) -> list[str]:
    """How much the others lose, by level of the first compared factor; by cell if that says too little."""
    if not worse:
        return []
    factors = compared(document)
    by_cell = len(factors) > 1 and not is_plural(factors[0])
    groups: dict[str, list[_Entry]] = {}
    for entry in sorted(worse, key=lambda one: -one.gain):
        levels = entry.cell["levels"]
        name = quoted(entry.cell["label"]) if by_cell else spaced(levels.get(next(iter(factors), None)))
        groups.setdefault(name, []).append(entry)
    about = _about(document)
    sentences: list[str] = []
    for level, mine in groups.items():
        gains = sorted({min(one.gain for one in mine), max(one.gain for one in mine)}, reverse=True)
        if about.get("better") != "lower" and gains[-1] < _AS_PART:
            sentences.append(f"{level} (× {' to '.join(dict.fromkeys(map(numbers.ratio, gains)))})")
        elif about.get("better") != "lower":
            sentences.append(f"{level} (−{_percents([1 - gain for gain in gains])})")
        elif gains[-1] > 0.5:
            sentences.append(f"{level} (+{_percents([1 / gain - 1 for gain in gains])})")
        else:
            sentences.append(f"{level} ({' to '.join(dict.fromkeys(_times(1 / gain) for gain in gains))} times)")
    more = f" and {len(sentences) - _MOST_LOSERS} more" if len(sentences) > _MOST_LOSERS else ""
    word = verdict_terms(about)[0 if about.get("better") == "lower" else 1]  # slower, worse; less of what is neither
    return [f"{capital(word)} than the baseline: {', '.join(sentences[:_MOST_LOSERS])}{more}."]


def _interval(document: Document, best: _Entry, chosen: Sequence[_Entry]) -> list[str]:
    """The interval of the best cell, and that those of the others overlap it."""
    if best.low is None or best.high is None:
        return []
    what, ratio, text = _as_in_tables(document, best)
    if len(chosen) == 1:
        return [f"95 % interval of the {what} ratio: {text}."]
    return [f"Best of these: {group_text(document, [best.cell])}, {what} ratio {ratio} "
            f"(95 % interval {text}); "
            f"{'the interval of the other overlaps' if len(chosen) == 2 else 'the intervals of the others overlap'} it."
            ]  # fmt: skip


def _as_in_tables(document: Document, entry: _Entry) -> tuple[str, str, str]:
    """What an entry's ratio is of, the ratio, and its interval: of a metric that is better if lower below 1 is less."""
    ratio, low, high = entry.gain, entry.low, entry.high
    if _about(document).get("better") == "lower":
        ratio, low, high = 1 / ratio, high and 1 / high, low and 1 / low
    places = numbers.decimals(low, high)
    return _noun(document), numbers.ratio(ratio, places), numbers.interval(low, high, places).replace("–", " to ")


def _open(open_ones: Sequence[_Entry], entries: Sequence[_Entry]) -> list[str]:
    if not open_ones or len(entries) == 1:
        return []
    return [f"Undecided: {len(open_ones)} of {human_count(len(entries), 'comparison')}."]


def _no_difference(document: Document, entries: Sequence[_Entry], open_ones: Sequence[_Entry], baseline: Row) -> str:
    name, others = cell_name(document, baseline), group_text(document, [one.cell for one in entries])
    if not open_ones:
        if len(entries) > _MOST_NAMED:
            others = f"all of the other {len(entries)} cells"
        threshold = numbers.percent(document["run"]["threshold"])
        return f"{others} and {name} are the same within {threshold}"
    if len(entries) == 1 and not entries[0].lacking:
        what, ratio, text = _as_in_tables(document, entries[0])
        figures = f"({what} ratio {ratio}, {text})"
        low, high = entries[0].low, entries[0].high
        if low is not None and high is not None and not low <= 1 <= high:
            return f"the difference between {others} and {name} is within the noise floor {figures}"
        return f"no difference found between {others} and {name} {figures}"
    if len(entries) > _MOST_NAMED:
        others = f"the other {len(entries)} cells"
    if all(one.lacking for one in open_ones):
        return f"undecided between {name} and {others}: {', '.join(dict.fromkeys(one.lacking for one in open_ones))}"
    return f"no difference found between {name} and {others}"


def _because(document: Document, cell: Row, baseline: Row) -> str:
    """The bottleneck as the end of a claim; nothing where no device was seen."""
    by_cell = {row["cell"]: row["resource"] for row in document.get("bottlenecks", ())}
    here, there = by_cell.get(cell["id"]), by_cell.get(baseline["id"])
    if here is None or there is None or "not known" in (here, there):
        return ""
    if here == there:
        return f"; the bottleneck is {_BOTTLENECKS[here]}" if here in _BOTTLENECKS else ""
    there_words, here_words = (_BOTTLENECKS.get(what, "neither the device nor the CPU") for what in (there, here))
    return f"; the bottleneck is {there_words} at {spaced(baseline['label'])}, {here_words} at {spaced(cell['label'])}"


def _of_many(document: Document, known: Sequence[ConditionAnswer], leading: ConditionAnswer) -> Answer:
    """Many conditions: which cell is best most often, how far it goes, and how many conditions say what."""
    counts: dict[str, int] = {}
    for one in known:
        if one.kind in ("better", "best"):
            for label in one.best:
                counts[label] = counts.get(label, 0) + 1
    total = len(known)
    by_kind = {kind: sum(one.kind == kind for one in known) for kind in ("better", "best", "same", "undecided")}
    baseline = cell_name(document, next(cell for cell in document["cells"] if cell["baseline"]))
    baseline = "the baseline" if baseline == "baseline" else baseline
    by_name = {
        "better": f"another level beats {baseline}",
        "best": f"no level beats {baseline}",
        "same": "all levels are the same",
        "undecided": "it is undecided",
    }
    tally = ", ".join(f"in {by_kind[kind]} {words}" for kind, words in by_name.items() if by_kind[kind])
    lines = (
        f"Of {total} conditions: {tally}.",
        f"Largest gain: {leading.claim}{_where(leading)}.",
        *leading.details,
    )
    if not by_kind["better"]:
        return Answer(_headline(leading), lines[:1], leading.kind)
    label = max(counts, key=lambda name: counts[name])
    best = f" with {quoted(leading.best[0])}" if leading.best else ""
    headline = (
        f"{capital(quoted(label))} is best, or not distinguishable from the best, in {counts[label]} of {total} "
        f"conditions; the largest gain is {_gain(document, leading)}{best}{_where(leading)}."
    )
    return Answer(headline, lines, "better")


def _gain(document: Document, leading: ConditionAnswer) -> str:
    """How far the best cell of a condition goes, as its claim has it: of a time what is saved."""
    if _about(document).get("better") == "lower" and leading.gain < 10:
        return f"{_percents([1 - 1 / leading.gain])} less {_noun(document)}"
    return _percents([leading.gain - 1]) if leading.gain < _AS_FACTOR else f"{_times(leading.gain)} times"


def _where(one: ConditionAnswer) -> str:
    """The condition behind a claim."""
    return f" ({condition_text(one.condition)})" if one.condition else ""


def _sentence(one: ConditionAnswer, *, named: bool) -> str:
    where = condition_text(one.condition) if named and one.condition else ""
    return f"{capital(where)}: {one.claim}." if where else f"{capital(one.claim)}."


def _why_none(document: Document) -> str:
    """Why no cell has a ratio."""
    of_round: dict[int, set[str]] = {}
    for trial in document["trials"]:
        if trial["used"]:
            of_round.setdefault(trial["round"], set()).add(trial["cell"])
    if not of_round:
        return "no trial has counted so far"
    primary = (document["run"]["primary_metric"], None)
    low = any((row["metric"], row["item"]) == primary and row["low_trial"] <= 0 for row in document["summary"])
    if low and any(len(cells) > 1 for cells in of_round.values()):
        return "a cell has no ratio if one of its trials has a value of 0 or less"
    return "no complete round has the baseline and another cell"


def _headline(one: ConditionAnswer) -> str:
    """The claim first, and then where it holds."""
    return f"{capital(one.claim)}{_where(one)}."


def _weight(one: ConditionAnswer) -> tuple[int, float]:
    """What is worth the headline: a gain, and the larger one."""
    order = ("none", "undecided", "same", "best", "better")
    return order.index(one.kind), one.gain


def _about(document: Document) -> Row:
    return document["metrics"].get(document["run"]["primary_metric"], {})


def cell_name(document: Document, cell: Row, *, alone: bool = False) -> str:
    """The baseline's levels; `alone`: of the first compared factor, where the second does not matter."""
    factors = compared(document)
    if len(factors) == 1 and (level := str(cell["levels"].get(factors[0]))) in _WORDS:
        return f"{factors[0].removeprefix('settings.')} = {level}"
    if factors and is_plural(factors[0]) and (len(factors) == 1 or alone):
        return spaced(cell["levels"].get(factors[0]))
    return "the baseline" if cell["label"] == "baseline" else spaced(cell["label"])


def _any_second(document: Document, chosen: Sequence[Row]) -> bool:
    """Whether these cells have every level of the second of two factors."""
    factors = compared(document)
    return len(factors) == 2 and len(chosen) > 1 and "any " in group_text(document, chosen)


def _plural(document: Document) -> bool:
    factors = compared(document)
    return bool(factors) and len(factors) <= 2 and is_plural(factors[0])


def _noun(document: Document) -> str:
    """What a cell has more or less of: the primary metric, whose name is shortened, or time."""
    about = _about(document)
    is_time = about.get("better") == "lower" and "slower" in verdict_terms(about)
    name = _short(title(document, document["run"]["primary_metric"]))
    return "time" if is_time and name != "latency" else name


def _good_word(document: Document) -> str:
    about = _about(document)
    return verdict_terms(about)[1 if about.get("better") == "lower" else 0]


def _best_word(document: Document) -> str:
    return {"faster": "fastest", "better": "best"}.get(_good_word(document), "largest")


def _short(name: str) -> str:
    return title_in_prose(clean(name)).split(",")[0]


def _times(value: float) -> str:
    return numbers.ratio(value) if value < 10 else f"{value:,.0f}"


def _percents(fractions: Sequence[float]) -> str:
    """One percentage, or a range of them.

    >>> _percents([0.054, 0.081]), _percents([0.054, 0.052]), _percents([0.004])
    ('5 to 8 %', '5 %', '0.4 %')
    """
    sentences = [f"{100 * abs(one):.{0 if abs(one) >= 0.0095 else 1}f}" for one in sorted(fractions, key=abs)]
    return f"{' to '.join(dict.fromkeys(sentences))} %"
