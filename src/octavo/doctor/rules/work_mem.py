"""work_mem times the sessions that may use it."""

from octavo.doctor.amounts import RELOAD, alter, memory_bytes
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import format_size, human_size

_DEFAULT, _MB = 4 * 1024**2, 1024**2
_MUCH = 2.0


def _judge(asked: RuleFacts) -> Ok | Finding:
    work, connections = asked.whole("setting.work_mem"), asked.whole("setting.max_connections")
    multiplier = asked.number("setting.hash_mem_multiplier")
    memory, buffers = memory_bytes(asked), asked.whole("setting.shared_buffers")
    sessions = int(work * multiplier) * connections
    seen = f"work_mem = {format_size(work)}, hash_mem_multiplier = {multiplier:g}, max_connections = {connections:,}"
    ratio = (buffers + sessions) / memory
    if ratio <= 1 or (work <= _DEFAULT and ratio <= _MUCH):
        return Ok(f"{seen}: {human_size(sessions)} with one hash each, {human_size(memory - buffers)} beside "
                  "shared_buffers")  # fmt: skip
    fits = max(1, (memory - buffers) // 2 // max(1, int(connections * multiplier)) // _MB)
    return Finding(
        "warning" if ratio > _MUCH else "note",
        seen,
        f"one hash in each session is {human_size(sessions)}, with shared_buffers {human_size(sessions + buffers)} of "
        f"{human_size(memory)}: the OOM killer, when they come together",
        (alter("work_mem", f"{fits}MB"), RELOAD, "# more where it is needed: SET work_mem in that session or role"),
        "reload",
        "SHOW work_mem;",
    )


RULE = DoctorRule(
    "work-mem",
    "Is there memory for what all sessions may sort and hash at once?",
    "shared_buffers and one hash of each of max_connections sessions are more than the memory (a warning from twice "
    "the memory on; with the default work_mem only then)",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021): work_mem and connections are the "
    "first causes of OOM kills; PostgreSQL's manual, work_mem and hash_mem_multiplier",
    _judge,
)
