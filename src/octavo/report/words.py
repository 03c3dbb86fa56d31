"""Sentences that the terminal, Markdown and HTML reports share."""

from octavo.report import numbers
from octavo.report.document import Document, Row, noise

FEW = 6


def noise_sentence(document: Document, condition: str) -> str:
    """The noise floor of a condition from its A/A pair, with a warning when the pair itself differs."""
    row = noise(document, condition)
    if row is None:
        return "Noise floor: unknown, because no A/A pair was measured."
    pair = numbers.ratio_interval(row["ratio"], row["low"], row["high"])
    if row["floor"] is None:
        return f"Noise floor: not known yet; the A/A pair gave {pair}."
    text = f"Noise floor: {numbers.percent(row['floor'])}; the A/A pair gave {pair}."
    if row["low"] is not None and row["high"] is not None and not row["low"] <= 1 <= row["high"]:
        text += " That interval excludes 1 although both are the same cell: trust no effect of this size."
    return text


def status_sentence(document: Document) -> str | None:
    """What a run that is not finished says on top; None when it is finished."""
    run = document["run"]
    if run["status"] == "finished":
        return None
    note = {
        "running": "the numbers will change",
        "interrupted": "what follows is what it had measured by then",
        "failed": "what follows is what it had measured before it failed",
    }.get(run["status"], "read the numbers with that in mind")
    state = "is still running" if run["status"] == "running" else f"is {run['status']}"
    if run["status"] == "interrupted":
        state = "was interrupted"
    elif run["status"] == "failed":
        state = "failed"
    return f"This run {state}: {run['rounds_finished']} of {run['rounds']} rounds are complete; {note}."


def verdicts_of(document: Document, condition: str) -> list[Row]:
    """The verdicts of one condition."""
    return [verdict for verdict in document["verdicts"] if verdict["condition"] == condition]


def tally(document: Document, condition: str) -> str:
    """How many cells of a condition got which verdict on the primary metric: "3 faster, 1 slower"."""
    primary = document["run"]["primary_metric"]
    control = {cell["id"] for cell in document["cells"] if cell["control"]}
    counts: dict[str, int] = {}
    for effect in document["effects"]:
        here = effect["condition"] == condition and effect["metric"] == primary and effect.get("item") is None
        if here and effect["cell"] not in control:
            word = str(effect["verdict"]).split(" (")[0]
            counts[word] = counts.get(word, 0) + 1
    order = sorted(counts, key=lambda word: -counts[word])
    return ", ".join(f"{counts[word]} {word}" for word in order)
