"""vm.overcommit_memory = 2 with little left to promise."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.units import human_size

_STRICT = 2
_NEAR = 0.95


def _judge(asked: RuleFacts) -> Ok | Finding:
    if asked.whole("host.memory.overcommit") != _STRICT:
        raise NotApplicableError("vm.overcommit_memory is not 2")
    limit, committed = asked.whole("host.memory.commit_limit_bytes"), asked.whole("host.memory.committed_bytes")
    seen = f"{human_size(committed)} of {human_size(limit)} are committed (Committed_AS, CommitLimit)"
    if committed < _NEAR * limit:
        return Ok(seen)
    ratio = asked.whole("host.memory.overcommit_ratio")
    available = asked.whole("host.memory.available_bytes")
    return Finding(
        "warning",
        seen,
        f"new connections and sorts fail with \"out of memory\" while {human_size(available)} are available",
        (f"echo 'vm.overcommit_ratio = {min(95, ratio + 20)}' > /etc/sysctl.d/60-postgresql.conf",
         "sysctl -p /etc/sysctl.d/60-postgresql.conf"),
        "now",
        "grep Commit /proc/meminfo",
    )  # fmt: skip


RULE = DoctorRule(
    "overcommit",
    "Is there room for allocations under strict overcommit accounting?",
    "vm.overcommit_memory = 2 and 95 % of CommitLimit are committed",
    "kernel Documentation/mm/overcommit-accounting.rst; PostgreSQL's manual, Linux Memory Overcommit",
    _judge,
)
