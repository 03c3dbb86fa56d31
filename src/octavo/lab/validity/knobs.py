"""A host setting that somebody else changed while the trial ran."""

from collections.abc import Sequence

from octavo.lab.validity.evidence import Evidence


def judge(evidence: Evidence) -> str | None:
    """Invalid when a value that a knob had set was different at the end; the fact `knobs_drifted` names them."""
    drifted: Sequence[str] = evidence.facts.get("knobs_drifted", ())
    return f"host settings changed during the trial: {'; '.join(drifted)}" if drifted else None
