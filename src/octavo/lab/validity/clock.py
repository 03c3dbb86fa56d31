"""The clock was set, or the machine slept: durations across that are meaningless."""

from octavo.lab.validity.evidence import Evidence
from octavo.units import parse_duration

# The rate at which the kernel may slew the clock (adjtimex(2): 500 parts in a million), which is not a step.
_SLEW = 500e-6


def judge(evidence: Evidence) -> str | None:
    """Invalid when CLOCK_REALTIME moved by `most_clock_step` more or less than CLOCK_MONOTONIC_RAW, besides slewing."""
    seen = evidence.surroundings
    if seen is None:
        return None
    most = evidence.thresholds.most_clock_step
    if abs(seen.clock_step_seconds) <= parse_duration(most) + _SLEW * seen.seconds:
        return None
    return f"the clock was moved by {seen.clock_step_seconds:+.3f} s (more than {most}), or the machine slept"
