"""effective_io_concurrency against a solid-state disk."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.planner_lines import planner_lines


def _judge(asked: RuleFacts) -> Ok | Finding:
    concurrency = asked.whole("setting.effective_io_concurrency")
    if concurrency > 1:
        return Ok(f"effective_io_concurrency = {concurrency}")
    if asked.flag("host.device.rotational"):
        raise NotApplicableError("the device is reported as rotational")
    return Finding(
        "note",
        f"effective_io_concurrency = {concurrency} on a solid-state device",
        "a bitmap heap scan, from 18 on every scan, has 1 request in flight: with 16 in flight it could read up to 16 "
        "blocks in the time of 1",
        *planner_lines(asked, "effective_io_concurrency", "16"),
    )


RULE = DoctorRule(
    "prefetch",
    "Does a bitmap heap scan have several reads in flight?",
    "effective_io_concurrency is 0 or 1 on a device reported as non-rotational",
    "PostgreSQL's manual, effective_io_concurrency (default 1 until 17, 16 from 18 on); PostgreSQL commit "
    "ff79b5b2aba0, Increase default effective_io_concurrency to 16 (1 was slower than 0)",
    _judge,
    volumes=("tables",),
)
