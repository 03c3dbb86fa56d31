"""The limits of a trial's device as measured by a probe, and with the I/O credits that it had."""

from octavo.host.block_limit import DeviceLimits
from octavo.knobs.volume_types import as_achieved, known_volume
from octavo.store.records import TrialRecord


def limits_during(device: str, trial: TrialRecord) -> DeviceLimits:
    """The limits of a level of the factor `device`: with credits that were spent on the way, the mean over the trial's
    time."""
    volume = known_volume(device)
    if volume is None:
        return DeviceLimits()
    facts = trial.facts or {}
    spent = facts.get("credits_spent_after_seconds")
    surroundings = facts.get("surroundings")
    if volume.burst is None or spent is None or not surroundings:
        return as_achieved(volume.highest, facts.get("device_limit_achieved") or {})
    share = min(1.0, spent / surroundings["seconds"])
    high, low = volume.highest, volume.baseline
    return DeviceLimits(_between(high.requests, low.requests, share), _between(high.bytes, low.bytes, share))


def _between(high: float | None, low: float | None, share: float) -> float | None:
    return None if high is None or low is None else share * high + (1 - share) * low
