"""work_mem times the sessions that may use it, and what autovacuum may take besides."""

from octavo.doctor.amounts import memory_bytes
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import RELOAD, alter
from octavo.units import format_size, human_size

_DEFAULT, _MB = 4 * 1024**2, 1024**2
_MUCH = 2.0


def _judge(asked: RuleFacts) -> Ok | Finding:
    work, connections = asked.whole("setting.work_mem"), asked.whole("setting.max_connections")
    multiplier = asked.number("setting.hash_mem_multiplier")
    memory, buffers = memory_bytes(asked), asked.whole("setting.shared_buffers")
    sessions, workers = int(work * multiplier) * connections, _autovacuum(asked)
    seen = f"work_mem = {format_size(work)}, hash_mem_multiplier = {multiplier:g}, max_connections = {connections:,}"
    beside = f", autovacuum {human_size(workers)}" if workers else ""
    ratio = (buffers + sessions + workers) / memory
    if ratio <= 1 or (work <= _DEFAULT and ratio <= _MUCH):
        left = human_size(max(0, memory - buffers))
        return Ok(f"{seen}: {human_size(sessions)} with one hash each{beside}, {left} beside shared_buffers")
    fits = max(1, (memory - buffers - workers) // 2 // max(1, int(connections * multiplier)) // _MB)
    few = max(10, (memory - buffers - workers) // 2 // max(1, int(work * multiplier)))
    lines = (
        (alter("work_mem", f"{fits}MB"), RELOAD, "# more where it is needed: SET work_mem in that session or role")
        if fits * _MB < work
        else (alter("max_connections", str(few)), "# and a pooler in front (pgbouncer, pool_mode = transaction)")
    )
    return Finding(
        "warning" if ratio > _MUCH else "note",
        seen,
        f"one hash in each session is {human_size(sessions)}{beside}, with shared_buffers "
        f"{human_size(sessions + workers + buffers)} of {human_size(memory)}: the OOM killer, when they come together",
        lines,
        "reload" if fits * _MB < work else "restart",
        "SHOW work_mem;",
    )


def _autovacuum(asked: RuleFacts) -> int:
    """What all workers may take at once (autovacuum_work_mem; -1 is maintenance_work_mem); 0 where that is unknown."""
    own, count = (asked.whole_or_none(f"setting.{name}") for name in ("autovacuum_work_mem", "autovacuum_max_workers"))
    each = own if own is not None and own >= 0 else asked.whole_or_none("setting.maintenance_work_mem")
    return (each or 0) * (count or 0)


RULE = DoctorRule(
    "work-mem",
    "Is there memory for what all sessions may sort and hash at once?",
    "shared_buffers, one hash of each of max_connections sessions and what autovacuum's workers may take are more than "
    "the "
    "memory (a warning from twice the memory on; with the default work_mem only then)",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021): work_mem and connections are the "
    "first causes of OOM kills; PostgreSQL's manual, work_mem, hash_mem_multiplier and autovacuum_work_mem",
    _judge,
)
