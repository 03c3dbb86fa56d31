"""How a condition was measured in slices: their length, the turns, disturbance by others, and the carry-over."""

from octavo.report import numbers
from octavo.report.document import Document, Row
from octavo.units import human_count

_COUNTS = ("turns", "turns_disturbed", "turns_dropped")


def slices(document: Document, condition: str) -> str | None:
    """Of all its rounds that count, in one sentence without its subject; None where no trial was measured in slices."""
    ids = {cell["id"] for cell in document["cells"] if cell["condition"] == condition}
    rounds: dict[tuple[int, int, int], Row] = {}
    for trial in document["trials"]:
        facts = trial.get("facts", {})
        if trial["cell"] in ids and trial["used"] and facts.get("interleave") == "slices":
            rounds.setdefault((trial["round"], trial.get("part", 1), trial.get("attempt", 1)), facts)
    if not rounds:
        return None
    found = list(rounds.values())
    turns, disturbed, dropped = (sum(facts.get(name, 0) for facts in found) for name in _COUNTS)
    text = f"{_lengths(found)}, {human_count(turns, 'turn')}"
    if disturbed:
        text += f", {numbers.percent(disturbed / turns)} of them disturbed by other processes or the hypervisor"
    if dropped:
        text += f" and {numbers.percent(dropped / turns)} dropped"
    if known := [facts for facts in found if facts.get("carry_over") is not None]:
        best = min(known, key=lambda facts: facts["carry_over_error"])
        carried, error = (numbers.percent(best[name]) for name in ("carry_over", "carry_over_error"))
        text += f"; carry-over from the preceding slice {carried} (standard error {error})"
    return text


def _lengths(found: list[Row]) -> str:
    lengths = sorted({round(1000 * facts["slice_seconds"]) for facts in found})
    shortest, longest = f"{lengths[0]:,} ms", f"{lengths[-1]:,} ms"
    return f"of {shortest}" if shortest == longest else f"of {shortest} to {longest}"
