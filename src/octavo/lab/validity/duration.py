"""A run that was shorter than requested: the published data has 1800 s runs that lasted 0.07 s."""

from octavo.lab.validity.evidence import Evidence
from octavo.units import parse_percentage


def judge(evidence: Evidence) -> str | None:
    """Invalid below `shortest_duration` of the requested time."""
    result = evidence.result
    if result.seconds >= parse_percentage(evidence.thresholds.shortest_duration) * result.seconds_asked:
        return None
    return f"ran {result.seconds:.2f} s of the {result.seconds_asked:g} s requested"
