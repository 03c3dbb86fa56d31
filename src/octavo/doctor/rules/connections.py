"""Connections that are kept open and do nothing, without a pooler."""

from octavo.doctor.amounts import memory_bytes, percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import human_count, human_size

_FEW, _A_CORE, _IDLE, _MUCH = 200, 10, 0.80, 0.02


def _judge(asked: RuleFacts) -> Ok | Finding:
    now, cores = asked.whole("server.connections"), asked.whole("host.cores")
    cores = min(cores, asked.whole_or_none("host.cpu.group_cores") or cores)
    seen = f"{human_count(now, 'connection')} on {human_count(cores, 'core')}"
    if now <= max(_FEW, _A_CORE * cores):
        return Ok(seen)
    idle = asked.whole("server.idle_connections")
    if idle < _IDLE * now:
        return Ok(f"{seen}, {idle:,} of them idle")
    count = max(1, asked.whole("host.process.count"))
    each = (asked.whole("host.process.page_tables_bytes") + asked.whole("host.process.private_bytes")) / count
    share = each * idle / memory_bytes(asked)
    return Finding(
        "warning" if share >= _MUCH else "note",
        f"{seen}, {idle:,} of them idle",
        f"{human_size(each)} of page tables and private memory each: {human_size(each * idle)} for idle "
        f"ones ({percent(share)} of the memory)",
        ("# pgbouncer.ini: two connections per core in all, if there is one database and one user",
         "# transactions share sessions: no LISTEN, no session's SET, advisory locks or temporary tables",
         "pool_mode = transaction", f"default_pool_size = {2 * cores}"),
        "now",
        "SELECT state, count(*) FROM pg_stat_activity GROUP BY 1;",
    )  # fmt: skip


RULE = DoctorRule(
    "connections",
    "Are there many idle connections?",
    "more than 200 connections and ten per core (of those that the control group allows) are open, four fifths of them "
    "idle (a warning when they take 2 % of the memory)",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021); Andres Freund, Measuring the Memory "
    "Overhead of a Postgres Connection (2020)",
    _judge,
)
