"""The largest possible effect of lost CPU time on a trial's numbers: a rule may only reject a trial for an effect that
it can explain."""

import math

from octavo.knobs.volume_types import as_achieved, known_volume
from octavo.lab.validity.evidence import Evidence

_KB = 1024


def possible_change(evidence: Evidence, lost: float) -> float:
    """The largest fraction by which the trial's result could have been higher without the loss of that share of the
    machine's CPU time.

    With all CPUs busy, work is proportional to the available CPU time: lost / (1 - lost). A device that served a share
    of its limit cannot have served more than the limit, however much CPU there was.
    """
    of_cpu = lost / (1 - lost) if lost < 1 else math.inf
    return min(of_cpu, left_by_device(evidence))


def left_by_device(evidence: Evidence) -> float:
    """How much more a limited device could have served; infinite without limits, or if the device was not observed."""
    volume = known_volume(evidence.levels.get("device", "native"))
    if volume is None:
        return math.inf
    limits = as_achieved(volume.at_first, evidence.facts.get("device_limit_achieved") or {})
    most = max(
        _used(evidence, limits.requests, ("device_reads_per_second", "device_writes_per_second"), 1),
        _used(evidence, limits.bytes, ("device_read_kb_per_second", "device_written_kb_per_second"), _KB),
    )
    return max(0.0, 1 / most - 1) if most > 0 else math.inf


def _used(evidence: Evidence, limit: float | None, names: tuple[str, str], unit: int) -> float:
    """The share of a limit that reads and writes used."""
    if limit is None or not all(name in evidence.numbers for name in names):
        return 0.0
    return sum(evidence.numbers[name] for name in names) * unit / limit
