"""effective_io_concurrency against a solid-state disk."""

from octavo.doctor.amounts import RELOAD, alter
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts


def _judge(asked: RuleFacts) -> Ok | Finding:
    concurrency = asked.whole("setting.effective_io_concurrency")
    if asked.flag("host.device.rotational"):
        raise NotApplicableError("the device says that it rotates")
    if concurrency > 1:
        return Ok(f"effective_io_concurrency = {concurrency}, the device is solid state")
    return Finding(
        "note",
        f"effective_io_concurrency = {concurrency} on a solid-state device",
        f"a bitmap heap scan keeps {max(1, concurrency)} request in flight; a device of 100 µs a read then gives "
        f"10,000 reads/s of what it can",
        (alter("effective_io_concurrency", "16"), RELOAD),
        "reload",
        "SHOW effective_io_concurrency;",
    )


RULE = DoctorRule(
    "prefetch",
    "Are several reads of a bitmap heap scan in flight?",
    "effective_io_concurrency is 0 or 1 on a device that says it does not rotate",
    "PostgreSQL's manual, effective_io_concurrency (default 1 until 17, 16 from 18 on)",
    _judge,
)
