"""The server died or restarted under the run."""

from octavo.lab.validity.evidence import Evidence

# What a postmaster writes when a backend has crashed and all others must go (src/backend/postmaster/postmaster.c).
_CRASH = "terminating any other active server processes"


def judge(evidence: Evidence) -> str | None:
    """Invalid when the server is gone, has another start time, or has logged a crash."""
    if not evidence.server_alive or evidence.started_after is None:
        return "the server died during the run"
    if evidence.started_after != evidence.started_before or _CRASH in evidence.server_log:
        return "the server restarted during the run"
    return None
