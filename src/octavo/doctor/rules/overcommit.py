"""vm.overcommit_memory = 2 with little left to commit."""

from octavo.doctor.amounts import pools
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import on_the_host
from octavo.units import human_size

# A file of its own, because 60-postgresql.conf may already set vm.overcommit_memory.
_FILE = "/etc/sysctl.d/60-postgresql-overcommit.conf"
_STRICT = 2
_NEAR = 0.95
# Shares of the memory: by how much to raise the limit, and its maximum.
_MORE, _MOST = 0.20, 0.95


def _judge(asked: RuleFacts) -> Ok | Finding:
    if asked.whole("host.memory.overcommit") != _STRICT:
        raise NotApplicableError("vm.overcommit_memory is not 2")
    limit, committed = asked.whole("host.memory.commit_limit_bytes"), asked.whole("host.memory.committed_bytes")
    seen = f"{human_size(committed)} of {human_size(limit)} are committed (Committed_AS, CommitLimit)"
    if committed < _NEAR * limit:
        return Ok(seen)
    available = asked.whole("host.memory.available_bytes")
    return Finding(
        "warning",
        seen,
        f'new connections and sorts fail with "out of memory" while {human_size(available)} are available',
        _lines(asked, limit),
        "now",
        "grep Commit /proc/meminfo",
    )


def _lines(asked: RuleFacts, limit: int) -> tuple[str, ...]:
    """Raises the setting in force: overcommit_ratio is 0 if overcommit_kbytes is set. Huge pages count neither as
    committed memory nor towards the limit."""
    ratio = asked.whole("host.memory.overcommit_ratio")
    huge = sum(one.total * one.page for one in pools(asked)) if asked.has("host.huge.pools") else 0
    memory = max(1, asked.whole("host.memory.total_bytes") - huge)
    now = ratio / 100 if ratio else (limit - (asked.whole_or_none("host.swap.total_bytes") or 0)) / memory
    if now >= _MOST:
        return (
            "# all of the memory is committed: smaller shared_buffers, fewer connections, or swap; by process:",
            "ps -eo pid,vsz,comm --sort=-vsz | head",
        )
    share = min(_MOST, now + _MORE)
    more = f"overcommit_ratio = {100 * share:.0f}" if ratio else f"overcommit_kbytes = {int(share * memory) // 1024}"
    return (*on_the_host(asked), f"echo 'vm.{more}' > {_FILE} && sysctl -p {_FILE}")


RULE = DoctorRule(
    "overcommit",
    "Is there room for allocations under strict overcommit accounting?",
    "vm.overcommit_memory = 2 and 95 % of CommitLimit are committed",
    "kernel Documentation/mm/overcommit-accounting.rst; PostgreSQL's manual, Linux Memory Overcommit",
    _judge,
)
