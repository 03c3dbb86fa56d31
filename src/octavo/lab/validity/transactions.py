"""Too few transactions for a meaningful rate."""

from octavo.lab.validity.evidence import Evidence


def judge(evidence: Evidence) -> str | None:
    """Invalid below `fewest_transactions`: a count of 100 scatters by 10 % on its own (a Poisson count's 1/√n)."""
    fewest = evidence.thresholds.fewest_transactions
    if evidence.result.transactions >= fewest:
        return None
    return f"only {evidence.result.transactions} transactions, fewer than {fewest}"
