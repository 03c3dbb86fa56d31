"""The client reported a problem: an error, an aborted client, a failed transaction."""

from octavo.lab.validity.evidence import Evidence


def judge(evidence: Evidence) -> str | None:
    """Invalid with any reported problem; the first one is the reason."""
    problems = evidence.result.problems
    return f"client: {problems[0]}" if problems else None
