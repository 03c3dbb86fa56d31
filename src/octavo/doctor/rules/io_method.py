"""io_method = sync, where PostgreSQL could read ahead of itself."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import alter


def _judge(asked: RuleFacts) -> Ok | Finding:
    method = asked.text("setting.io_method")
    if method != "sync":
        return Ok(f"io_method = {method}")
    concurrency = asked.whole("setting.effective_io_concurrency")
    return Finding(
        "note",
        "io_method = sync",
        f"a scan waits for each request before it issues the next: 1 in flight, where effective_io_concurrency allows "
        f"{concurrency}",
        (alter("io_method", "worker"),),
        "restart",
        "SHOW io_method;",
    )


RULE = DoctorRule(
    "io-method",
    "Are reads asynchronous?",
    "io_method is sync (PostgreSQL 18 and later)",
    "PostgreSQL's manual, io_method",
    _judge,
)
