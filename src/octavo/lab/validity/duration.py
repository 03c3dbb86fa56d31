"""A run that was shorter than asked: the published data has 1800 s runs that lasted 0.07 s."""

from octavo.lab.validity.evidence import Evidence

_SHARE = 0.95


def judge(evidence: Evidence) -> str | None:
    """Invalid below 95 % of the time asked for."""
    result = evidence.result
    if result.seconds >= _SHARE * result.seconds_asked:
        return None
    return f"ran {result.seconds:.2f} s of the {result.seconds_asked:g} s asked for"
