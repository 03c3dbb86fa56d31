"""Errors in the server's log: work that was requested and not done."""

import re

from octavo.lab.validity.evidence import Evidence
from octavo.text import one_line
from octavo.units import human_count

# The pattern: the prefix that Octavo sets (`%m [%p] %b `, postgres/cluster.py), then a severity and two spaces
# (src/backend/utils/error/elog.c).
_ERROR = re.compile(r"^\S+ \S+ \S+ \[\d+\] .*?\b((?:ERROR|FATAL|PANIC):  .*)$", re.MULTILINE)


def judge(evidence: Evidence) -> str | None:
    """Invalid with more than `most_log_errors` lines of ERROR, FATAL or PANIC since the server was started."""
    errors: list[str] = _ERROR.findall(evidence.server_log)
    most = evidence.thresholds.most_log_errors
    if len(errors) <= most:
        return None
    count = human_count(len(errors), "error")
    return f"{count} in the server's log (more than {most}), first: {one_line(errors[0])}"
