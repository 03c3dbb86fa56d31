"""Sentences that the terminal, Markdown and HTML reports share."""

from collections.abc import Sequence

from octavo.report import numbers
from octavo.report.document import Document, Row, cells, effects_by_key, noise
from octavo.report.memo import once
from octavo.report.plain import spaced
from octavo.report.run_history import is_narrow, missing_cells, negative_controls, parts_sentence, rounds_text, steps
from octavo.units import human_count

FEW = 6


def noise_sentence(document: Document, condition: str) -> str:
    """The noise floor of a condition from its controls, with a warning when a control itself differs (an alarm).

    The row names the control whose interval reaches farthest: the A/A pair, or a negative control.
    """
    row = noise(document, condition)
    if row is None:
        if not any(cell["control"] for cell in cells(document, condition)):
            return "Noise floor: unknown, because there is no A/A control."
        return "Noise floor: unknown, because no trial of the A/A control counted."
    labels = {cell["id"]: cell["label"] for cell in document["cells"]}
    negative = row.get("cell") in negative_controls(document)
    control = f"the negative control {labels[row['cell']]}" if negative else "the A/A control"
    pair = numbers.ratio_interval(row["ratio"], row["low"], row["high"])
    if row["floor"] is None:
        return f"Noise floor: not known yet; {control} gave {pair}."
    text = f"Noise floor: {numbers.noise_floor(row['floor'])}; {control} gave {pair}."
    if row["low"] is not None and row["high"] is not None and not row["low"] <= 1 <= row["high"]:
        effect = effects_by_key(document).get((str(row.get("cell")), row["metric"], None), {})
        if effect.get("alarm", True):
            same = "it cannot differ from the baseline" if negative else "both are the same cell"
            text += f" That interval excludes 1 although {same}: do not trust effects of this size."
        else:  # of many conditions some would
            text += " That interval excludes 1, which over all conditions and analyses is not beyond chance."
    return text


def status_sentence(document: Document) -> str | None:
    """The status of an unfinished run, shown on top; None if it is finished."""
    run = document["run"]
    if run["status"] == "finished":
        return None
    state, note = {
        "running": ("is still running", "the numbers will change"),
        "interrupted": ("was interrupted", "the numbers below are from the trials until then"),
        "failed": ("failed", "the numbers below are from the trials before that"),
    }.get(run["status"], (f"is {run['status']}", "the numbers may be incomplete"))
    verb = "is" if run["rounds_finished"] == 1 and rounds_text(document) == "1 round" else "are"
    error = document["environment"].get("error") if run["status"] == "failed" else None
    cause = f" It failed with: {error.rstrip('.')}." if error else ""
    return f"This run {state}: {rounds_text(document)} {verb} complete; {note}.{cause}"


def verdicts_of(document: Document, condition: str) -> list[Row]:
    """The verdicts of one condition."""
    return _verdicts(document).get(condition, [])


@once
def _verdicts(document: Document) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for verdict in document["verdicts"]:
        found.setdefault(verdict["condition"], []).append(verdict)
    return found


def tally(document: Document, condition: str) -> str:
    """How many cells of a condition got which verdict on the primary metric: "3 faster, 1 slower"."""
    primary = document["run"]["primary_metric"]
    control = {cell["id"] for cell in document["cells"] if cell["control"]} | negative_controls(document)
    counts: dict[str, int] = {}
    known = effects_by_key(document)
    for cell in cells(document, condition):
        effect = known.get((cell["id"], primary, None))
        if effect is not None and effect["cell"] not in control:
            word = "undecided but narrow" if is_narrow(effect) else str(effect["verdict"]).split(" (")[0]
            counts[word] = counts.get(word, 0) + 1
    order = sorted(counts, key=lambda word: -counts[word])
    return ", ".join(f"{counts[word]} {word}" for word in order)


def steps_sentence(document: Document, condition: str) -> str | None:
    """After how many rounds which cells were settled, or why they were not; None where the plan looks once."""
    if document["run"].get("stopping") != "decided":
        return None
    groups: dict[tuple[int, str], list[str]] = {}
    for step in steps(document, condition):
        if step.rounds:
            groups.setdefault((step.rounds, step.why), []).append(spaced(step.label))
    sentences = [
        f"{_few(names)} {'was' if len(names) == 1 else 'were'} {why} after {human_count(rounds, 'round')}"
        for (rounds, why), names in sorted(groups.items())
    ]
    return f"{'; '.join(sentences)}." if sentences else None


def _few(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are."""
    more = [f"{len(names) - FEW} more"] if len(names) > FEW else []
    return ", ".join([*names[:FEW], *more])


def limits_of(document: Document) -> list[str]:
    """The limitations, without the alarms, which come first in the report."""
    loud = set(document.get("alarms", ()))
    return [limit for limit in document["limits"] if limit not in loud]


def missing_sentence(word: str, reason: str, cells: Sequence[str]) -> str:
    """Cells without an answer, and why.

    >>> missing_sentence("skipped", "no huge pages on this host", ["8kB huge"])
    '8kB huge was skipped: no huge pages on this host'
    """
    verb = f"{'was' if len(cells) == 1 else 'were'} {word}"
    again = " after repeated failures" if word == "given up" else ""
    return f"{_few(cells)} {verb}{again}: {reason}"


def run_notes(document: Document) -> list[str]:
    """Sentences about the course of the run: its parts, and the cells without an answer."""
    found = [parts_sentence(document)]
    found += [f"{missing_sentence(word, reason, mine)}." for word, reason, mine in missing_cells(document)]
    return [sentence for sentence in found if sentence]
