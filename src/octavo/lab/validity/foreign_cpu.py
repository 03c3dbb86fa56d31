"""CPU time used by processes other than the server, the client and Octavo."""

import os

from octavo.lab.validity.evidence import Evidence
from octavo.lab.validity.possible_change import possible_change
from octavo.units import parse_percentage


def judge(evidence: Evidence) -> str | None:
    """Invalid when foreign processes used more than `most_foreign_cpu` of the machine's CPU time, and that can have
    caused a difference of interest in this trial.

    The machine's time is counted in ticks of 10 ms (proc(5), USER_HZ), that of processes exactly. Up to a tick of each
    CPU may be unaccounted for, which is a percent of a second, and a tenth of a scan of 100 ms.
    """
    seen = evidence.surroundings
    if seen is None or seen.foreign_cpu_share is None:
        return None
    most = evidence.thresholds.most_foreign_cpu
    tick = 1 / (os.sysconf("SC_CLK_TCK") * seen.seconds) if seen.seconds > 0 else 0.0
    taken = seen.foreign_cpu_share - tick
    if taken <= parse_percentage(most) or possible_change(evidence, taken) <= evidence.threshold:
        return None
    whom = f", most of all {seen.busiest}" if seen.busiest else ""
    return f"foreign processes took {seen.foreign_cpu_share * 100:.1f} % of the CPU (more than {most}){whom}"
