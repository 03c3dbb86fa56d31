"""The clock was set, or the machine slept: times taken across it mean nothing."""

from octavo.lab.validity.evidence import Evidence
from octavo.units import parse_duration

# How fast the kernel lets the clock be slewed (adjtimex(2): 500 parts in a million), which is no step.
_SLEW = 500e-6


def judge(evidence: Evidence) -> str | None:
    """Invalid when CLOCK_REALTIME moved by `most_clock_step` more or less than CLOCK_MONOTONIC_RAW, slewing aside."""
    seen = evidence.surroundings
    if seen is None:
        return None
    most = evidence.thresholds.most_clock_step
    if abs(seen.clock_step_seconds) <= parse_duration(most) + _SLEW * seen.seconds:
        return None
    return f"the clock was moved by {seen.clock_step_seconds:+.3f} s (more than {most}), or the machine slept"
