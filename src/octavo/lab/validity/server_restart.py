"""The server died or restarted during the run."""

import re

from octavo.lab.validity.evidence import Evidence

# The postmaster's message when a backend has crashed and all others must end (src/backend/postmaster/postmaster.c).
_CRASH = "terminating any other active server processes"
# The message before it: which process, and what ended it.
_WHO = re.compile(r"LOG:  (.*\(PID \d+\) (?:was terminated by|exited with).*)")


def judge(evidence: Evidence) -> str | None:
    """Invalid when the server is gone, has logged a backend's crash, or has another start time, unless the workload
    itself restarts it (`restarts` of the trial's facts)."""
    if not evidence.server_alive or evidence.started_after is None:
        return "the server died during the run"
    if _CRASH in evidence.server_log:
        who = _WHO.search(evidence.server_log)
        return f"the server restarted during the run{f': {who[1]}' if who else ''}"
    if evidence.started_after != evidence.started_before and not evidence.facts.get("restarts"):
        return "the server restarted during the run"
    return None
