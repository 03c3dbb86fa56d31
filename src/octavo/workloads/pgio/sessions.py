"""The work of each session, from pgbench's log of every call."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from octavo.postgres.cluster import Server
from octavo.workload_support import pgbench_client
from octavo.workloads.base import Levels, WorkloadResult

_PREFIX = "pgio_calls"
# A line has about 40 bytes, and a call takes milliseconds.
_MOST_BYTES = 4 * 1024**3
# The client's number, its transaction's number, and the latency; a failed one has a word instead.
_CALL = re.compile(r"(\d{1,9}) \d{1,18} \d{1,18} ", re.ASCII)


def measure(server: Server, levels: Levels, seed: int, what: Sequence[str]) -> tuple[WorkloadResult, Counter[int]]:
    """Like `pgbench_client.measure`, with every call logged; also returns the calls by session. Raises OctavoError
    without any."""
    try:
        # The later of two options counts.
        logging = [f"--log-prefix={_PREFIX}", "--sampling-rate=1"]
        result = pgbench_client.measure(server, levels, seed, [*what, *logging])
        return result, count(pgbench_client.log_lines(_logs(server), _MOST_BYTES))
    finally:
        for path in _logs(server):
            path.unlink(missing_ok=True)


def count(lines: Iterable[str]) -> Counter[int]:
    """The successful calls, by session number.

    >>> count(["0 1 1234 0 1700000000 5", "1 1 900 0 1700000000 6", "0 2 failed 0 1700000000 7"])
    Counter({0: 1, 1: 1})
    """
    return Counter(int(found[1]) for line in lines if (found := _CALL.match(line)))


def shares(calls: Mapping[int, int], sessions: int) -> list[float]:
    """Each session's share of all calls, including idle sessions; empty without calls.

    >>> shares({0: 3, 2: 1}, 3)
    [0.75, 0.0, 0.25]
    """
    whole = sum(calls.values())
    return [calls.get(session, 0) / whole for session in range(sessions)] if whole else []


def _logs(server: Server) -> list[Path]:
    return list(server.socket_directory.glob(f"{_PREFIX}.*"))
