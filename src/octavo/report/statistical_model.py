"""The statistical model of a condition: scatter of loads and trials, interim analyses, method."""

from octavo.report import numbers
from octavo.report.document import Document, Row
from octavo.report.slices import slices
from octavo.units import human_count


def model(document: Document, condition: str) -> Row | None:
    """The statistical model of a condition's primary metric."""
    primary = document["run"]["primary_metric"]
    for row in document.get("model", ()):
        if row["condition"] == condition and row["metric"] == primary and row.get("item") is None:
            return row
    return None


def model_rows(row: Row) -> list[tuple[str, str]]:
    """The model as pairs of name and value."""
    freedom = numbers.freedom
    loads = freedom(row["load_degrees_of_freedom"])
    if row.get("by_group"):
        of = [f"{one['level']} {numbers.percent(one['deviation_percent'] / 100)}" for one in row["by_group"]]
        scatter = [("standard deviation of loads and trials", ", ".join(of))]
    elif row["together_deviation_percent"] is not None:
        scatter = [("standard deviation of loads and trials", _deviation(row["together_deviation_percent"], loads))]
    else:
        trials = freedom(row["residual_degrees_of_freedom"])
        scatter = [
            ("standard deviation between loads", _deviation(row["load_deviation_percent"], loads)),
            ("standard deviation of trials on one load", _deviation(row["residual_deviation_percent"], trials)),
        ]
    needed = row.get("fewest_between_loads", 0)
    general = (
        "loads in general"
        if row["loads_in_general"]
        else f"the loads that were measured; loads in general need {needed} degrees of freedom between loads"
    )
    hosts = row.get("hosts", 1)
    if hosts > 1:
        general = f"hosts like these {hosts}" if row["hosts_in_general"] else f"these {hosts} hosts, and {general}"
    looks, first = row["looks"], row.get("first_look")
    often = f"{looks or 'none'}{f', the first after round {first}' if first else ''}"
    share, count = row["confidence"], row["comparisons"]
    return [
        *scatter,
        ("the intervals hold for", general),
        ("trials", f"{human_count(row['rounds'], 'round')}, at most {human_count(row['loads'], 'load')}"),
        ("interim analyses", often),
        ("method", f"{row['method']}; {human_count(count, 'comparison')}, "
         f"{numbers.percent(share)} simultaneous confidence"),
        ("critical value", numbers.significant(row["critical_value"]) if row["critical_value"] else "none yet"),
    ]  # fmt: skip


def _deviation(percent: float | None, freedom: str) -> str:
    return f"unknown ({freedom})" if percent is None else f"{numbers.percent(percent / 100)} ({freedom})"


def model_sentence(document: Document, condition: str) -> str | None:
    """Scatter and interim analyses in one sentence, for a terminal or a mail."""
    row = model(document, condition)
    if row is None:
        return None
    reported = dict(model_rows(row))
    scatter = [f"{what}: {value}" for what, value in reported.items() if what.startswith("standard deviation")]
    text = f"{', '.join(scatter)}; interim analyses: {reported['interim analyses']}"
    if by_turns := slices(document, condition):
        text += f". Measured in slices {by_turns}"
    return f"{text[0].upper()}{text[1:]}."
