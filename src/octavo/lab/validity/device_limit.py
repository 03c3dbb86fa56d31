"""A device limit that was requested but not achieved."""

from collections.abc import Mapping

from octavo.lab.validity.evidence import Evidence
from octavo.units import parse_percentage


def judge(evidence: Evidence) -> str | None:
    """Invalid when the achieved limit differs by more than `most_limit_error` from the requested one, or is unknown.

    Both are facts of the trial: `device_limit_asked` and `device_limit_achieved`, number by name of the limit.
    """
    asked: Mapping[str, float] = evidence.facts.get("device_limit_asked", {})
    achieved: Mapping[str, float] = evidence.facts.get("device_limit_achieved", {})
    most = evidence.thresholds.most_limit_error
    for name, wanted in asked.items():
        got = achieved.get(name)
        if got is None:
            return f"device limit {name}: {wanted:g} requested; achieved: unknown"
        if abs(got - wanted) > parse_percentage(most) * wanted:
            return f"device limit {name}: {wanted:g} requested, {got:g} achieved (off by more than {most})"
    return None
