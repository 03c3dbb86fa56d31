"""Connections that are kept open and do nothing, without a pooler."""

from octavo.doctor.amounts import memory_bytes, percent, server_cores
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import human_count, human_size

_FEW, _A_CORE, _IDLE, _MUCH = 200, 10, 0.80, 0.02


def _judge(asked: RuleFacts) -> Ok | Finding:
    now, cores = asked.whole("server.connections"), server_cores(asked) or asked.whole("host.cores")
    seen = f"{human_count(now, 'connection')} on {human_count(cores, 'core')}"
    if now <= max(_FEW, _A_CORE * cores):
        return Ok(seen)
    idle = asked.whole("server.idle_connections")
    if idle < _IDLE * now:
        return Ok(f"{seen}, {idle:,} of them idle")
    each = asked.whole("host.process.median_own_bytes")
    share = each * idle / memory_bytes(asked)
    return Finding(
        "warning" if share >= _MUCH else "note",
        f"{seen}, {idle:,} of them idle",
        f"half of the server's processes have at least {human_size(each)} each of page tables and memory of their own: "
        f"{human_size(each * idle)} for the idle ones ({percent(share)} of the memory)",
        ("# pgbouncer.ini: two connections per core in all, if there is one database and one user",
         "# clients share sessions: no LISTEN, and no SET, advisory locks or temporary tables beyond a transaction",
         "pool_mode = transaction", f"default_pool_size = {2 * cores}"),
        "now",
        "SELECT state, count(*) FROM pg_stat_activity GROUP BY 1;",
    )  # fmt: skip


RULE = DoctorRule(
    "connections",
    "Are there many idle connections?",
    "more than 200 connections and more than ten per core (of those that affinity, cpuset and control group allow) are "
    "open, 80 % of them idle (a warning when their page tables and own memory, without what they share with the "
    "postmaster since the fork, take 2 % of the memory)",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021); Andres Freund, Measuring the Memory "
    "Overhead of a Postgres Connection (2020); proc_pid_status(5), VmPTE and RssAnon",
    _judge,
)
