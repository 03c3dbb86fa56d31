"""RLIMIT_MEMLOCK: it does not affect huge pages, but affects io_uring on old kernels."""

import re

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import EDIT_UNIT
from octavo.units import human_size

_LIMIT = "host.process.memlock_bytes"
_NOT_CHARGED_FROM = (5, 12)
# The memory of a ring: its queues and its entries, at most 64 by default (io_max_concurrency).
_PAGES, _ROOM = 2, 2


def _judge(asked: RuleFacts) -> Ok | Finding:
    try:
        method = asked.text("setting.io_method")
    except NotApplicableError:  # before 18
        method = "sync"
    if method != "io_uring":
        return Ok("PostgreSQL maps huge pages with mmap, to which memlock does not apply (docs/hugepages.md)")
    kernel = asked.text("host.kernel")
    numbers = re.match(r"(\d+)\.(\d+)", kernel)
    if numbers and (int(numbers[1]), int(numbers[2])) >= _NOT_CHARGED_FROM:
        return Ok(f"io_uring of Linux {kernel} is not charged to memlock")
    # None means no limit; a limit that this user may not see is unknown.
    limit = asked.whole(_LIMIT) if asked.value(_LIMIT) is not None else None
    connections = asked.whole("setting.max_connections")
    rings = _PAGES * asked.whole("host.memory.page_bytes") * connections
    if limit is None or limit >= _ROOM * rings:
        return Ok(f"memlock is large enough for io_uring, which takes about {human_size(rings)}")
    return Finding(
        "note",
        f"io_method = io_uring on Linux {kernel} with memlock {human_size(limit)}",
        f"before Linux 5.12 rings are locked memory, about {human_size(rings)} for {connections:,} connections; with "
        "more of them, or when started under a lower limit, the server fails to start with ENOMEM",
        (EDIT_UNIT, "[Service]", "LimitMEMLOCK=infinity"),
        "restart",
        "grep 'Max locked' /proc/$(head -1 $PGDATA/postmaster.pid)/limits",
    )


RULE = DoctorRule(
    "memlock",
    "Is the limit on locked memory large enough?",
    "io_method = io_uring on a kernel before 5.12, with a memlock limit below twice the memory of the rings at "
    "max_connections",
    "io_uring_setup(2) (RLIMIT_MEMLOCK before Linux 5.12); docs/hugepages.md shows that it does not affect huge pages",
    _judge,
)
