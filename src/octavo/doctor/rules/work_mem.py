"""work_mem times the sessions that may use it, plus the memory of autovacuum."""

from octavo.doctor.amounts import is_standby, memory_bytes
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import RELOAD, Line, alter
from octavo.units import format_size, human_size

_DEFAULT, _MB, _GB = 4 * 1024**2, 1024**2, 1024**3
_MUCH = 2.0
_LEAST_WORKER = 64  # MB, the default of maintenance_work_mem
_WITHOUT_LIMIT = 170000  # before this version, vacuum collects dead rows in at most 1 GB


def _judge(asked: RuleFacts) -> Ok | Finding:
    work, connections = asked.whole("setting.work_mem"), asked.whole("setting.max_connections")
    multiplier = asked.number("setting.hash_mem_multiplier")
    memory, buffers = memory_bytes(asked), asked.whole("setting.shared_buffers")
    if buffers >= memory:
        raise NotApplicableError("shared_buffers alone is more than the memory")
    sessions, (each, workers) = int(work * multiplier) * connections, _autovacuum(asked)
    seen = f"work_mem = {format_size(work)}, hash_mem_multiplier = {multiplier:g}, max_connections = {connections:,}"
    beside = f", autovacuum {human_size(each * workers)}" if each * workers else ""
    total = buffers + sessions + each * workers
    ratio, left = total / memory, memory - buffers
    if ratio <= 1 or (work <= _DEFAULT and ratio <= _MUCH):
        return Ok(
            f"{seen}: {human_size(sessions)} with one hash each{beside}, {human_size(left)} beside shared_buffers"
        )
    lines: list[Line] = []
    if each * workers > left // 4:
        each = max(_LEAST_WORKER, left // 4 // workers // _MB) * _MB
        lines = [alter("autovacuum_work_mem", format_size(each)), RELOAD]
    room = max(0, left - each * workers)
    takes = "reload"
    if sessions > room:
        fits = max(1, room // 2 // max(1, int(connections * multiplier)) // _MB)
        if fits * _MB < work:
            lines += [
                alter("work_mem", f"{fits}MB"), RELOAD,
                "# more where it is needed: SET work_mem in that session or role",
            ]  # fmt: skip
        else:
            lines += _fewer(asked, max(10, room // 2 // max(1, int(work * multiplier))))
            takes = "restart"
    return Finding(
        "warning" if ratio > _MUCH else "note",
        seen,
        f"one hash table in each session is {human_size(sessions)}{beside}, with shared_buffers {human_size(total)} of "
        f"{human_size(memory)}: if they coincide, the OOM killer kills a backend",
        tuple(lines),
        takes,
        "SELECT name, setting, unit FROM pg_settings WHERE name IN ('work_mem', 'autovacuum_work_mem', "
        "'max_connections');",
    )


def _fewer(asked: RuleFacts, connections: int) -> list[Line]:
    """A standby's max_connections may never be less than its primary's (manual, Hot Standby)."""
    return [
        "# this is a standby: on its primary first, or it stops applying WAL"
        if is_standby(asked)
        else "# then on standbys",
        alter("max_connections", str(connections)),
        "# and a pooler in front (pgbouncer, pool_mode = transaction)",
    ]


def _autovacuum(asked: RuleFacts) -> tuple[int, int]:
    """The memory of a worker (autovacuum_work_mem; -1 is maintenance_work_mem) and the number of workers; 0 if
    unknown."""
    own, count = (asked.whole_or_none(f"setting.{name}") for name in ("autovacuum_work_mem", "autovacuum_max_workers"))
    each = (own if own is not None and own >= 0 else asked.whole_or_none("setting.maintenance_work_mem")) or 0
    if (asked.whole_or_none("server.version_number") or _WITHOUT_LIMIT) < _WITHOUT_LIMIT:
        each = min(each, _GB)
    return each, count or 0


RULE = DoctorRule(
    "work-mem",
    "Is there memory for what all sessions may sort and hash at once?",
    "shared_buffers, one hash table in each of max_connections sessions and what autovacuum's workers may take (1 GB "
    "each at most before 17) are more than the memory (a warning from twice the memory on; with the default work_mem "
    "only then)",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021): work_mem and connections are the "
    "first causes of OOM kills; PostgreSQL's manual, work_mem, hash_mem_multiplier and autovacuum_work_mem",
    _judge,
)
