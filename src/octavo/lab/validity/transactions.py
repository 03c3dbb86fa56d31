"""Too few transactions for a rate to mean anything."""

from octavo.lab.validity.evidence import Evidence

_FEWEST = 100


def judge(evidence: Evidence) -> str | None:
    """Invalid below 100 transactions: their count alone would scatter by 10 % (a Poisson count's 1/√n)."""
    if evidence.result.transactions >= _FEWEST:
        return None
    return f"only {evidence.result.transactions} transactions, fewer than {_FEWEST}"
