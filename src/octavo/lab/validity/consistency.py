"""A condition on the data does not hold after the run: some of the work was done wrong, or not at all."""

from octavo.lab.validity.evidence import Evidence


def judge(evidence: Evidence) -> str | None:
    """Invalid with any violation that the workload found in its data; the first one is the reason."""
    if not evidence.violations:
        return None
    more = len(evidence.violations) - 1
    return evidence.violations[0] + (f" (and {more} more)" if more else "")
