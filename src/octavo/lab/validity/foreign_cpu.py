"""CPU time that neither the server, nor the client, nor Octavo took."""

from octavo.lab.validity.evidence import Evidence
from octavo.units import parse_percentage

NAME = "foreign_cpu"


def judge(evidence: Evidence) -> str | None:
    """Invalid when foreign processes took more than `most_foreign_cpu` of the machine's CPU time."""
    seen = evidence.surroundings
    if seen is None or seen.foreign_cpu_share is None:
        return None
    most = evidence.thresholds.most_foreign_cpu
    if seen.foreign_cpu_share <= parse_percentage(most):
        return None
    whom = f", most of all {seen.busiest}" if seen.busiest else ""
    return f"foreign processes took {seen.foreign_cpu_share * 100:.1f} % of the CPU (more than {most}){whom}"
