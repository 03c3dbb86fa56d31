"""shared_memory_type = sysv, which never gets huge pages."""

from octavo.doctor.amounts import shared_memory
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import alter
from octavo.hugepages.limits import no_mmap
from octavo.units import human_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    kind = asked.text("setting.shared_memory_type")
    setting = asked.text("setting.huge_pages")
    if kind == "mmap" or setting == "off":
        return Ok(f"shared_memory_type = {kind}, huge_pages = {setting}")
    said = no_mmap(kind)
    return Finding(
        "warning",
        said.found,
        f"{human_size(shared_memory(asked))} of shared memory: {said.consequence}",
        (alter("shared_memory_type", "mmap"),),
        "restart",
        "SHOW shared_memory_type;",
    )


RULE = DoctorRule(
    "shared-memory-type",
    "Can shared memory be in huge pages at all?",
    "shared_memory_type is not mmap while huge_pages is try or on",
    "PostgreSQL's manual, huge_pages (with shared_memory_type = mmap only)",
    _judge,
)
