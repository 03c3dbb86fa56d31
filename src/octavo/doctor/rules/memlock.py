"""RLIMIT_MEMLOCK: it does not matter to huge pages, and matters to io_uring on old kernels."""

import re

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import EDIT_UNIT
from octavo.units import human_size

_NOT_CHARGED_FROM = (5, 12)
_LEAST = 64 * 1024**2


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
    limit = asked.whole_or_none("host.process.memlock_bytes")
    if limit is None or limit >= _LEAST:
        return Ok("memlock is large enough for io_uring")
    connections = asked.whole("setting.max_connections")
    return Finding(
        "warning",
        f"io_method = io_uring on Linux {kernel} with memlock {human_size(limit)}",
        f"before Linux 5.12 rings are locked memory: those of {connections:,} connections do not fit, and the "
        "server fails to start with ENOMEM",
        (EDIT_UNIT, "[Service]", "LimitMEMLOCK=infinity"),
        "restart",
        "grep 'Max locked' /proc/$(head -1 $PGDATA/postmaster.pid)/limits",
    )


RULE = DoctorRule(
    "memlock",
    "Is the limit on locked memory large enough?",
    "io_method = io_uring on a kernel before 5.12 with a memlock of less than 64 MB",
    "io_uring_setup(2) (RLIMIT_MEMLOCK before Linux 5.12); docs/hugepages.md shows that it does not affect huge pages",
    _judge,
)
