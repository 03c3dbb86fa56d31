"""The hypervisor gave the CPU to another machine, which no factor can cause."""

from octavo.lab.validity.evidence import Evidence
from octavo.lab.validity.possible_change import possible_change
from octavo.units import parse_percentage


def judge(evidence: Evidence) -> str | None:
    """Invalid when more than `most_steal` of the machine's CPU time was stolen during the run, and that can have caused
    a difference of interest in this trial."""
    most = evidence.thresholds.most_steal
    stolen = evidence.numbers.get("cpu_steal_share", 0.0)
    change = possible_change(evidence, stolen)
    if stolen <= parse_percentage(most) or change <= evidence.threshold:
        return None
    return (
        f"the hypervisor took {stolen * 100:.2f} % of the CPU (more than {most}), "
        f"which may have changed the result by {change * 100:.1f} %"
    )
