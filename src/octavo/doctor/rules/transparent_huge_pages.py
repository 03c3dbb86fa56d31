"""Transparent huge pages for every process."""

from octavo.doctor.amounts import SHMEM_THP
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import on_the_host
from octavo.host.checks.memory import THP_FILE
from octavo.units import human_size

_PRIVATE = "only private memory gets them (sorts, hashes); shared_buffers does not"
_SHARED = "private memory gets them (sorts, hashes), and shared_buffers by shmem_enabled"


def _judge(asked: RuleFacts) -> Ok | Finding:
    mode, defrag = asked.text("host.thp.enabled"), asked.text_or_none("host.thp.defrag")
    if mode != "always":
        return Ok(f"enabled = {mode}")
    stalls = defrag == "always"
    # The memory that one page of page table entries, of 8 bytes each, maps.
    page = asked.whole_or_none("host.memory.page_bytes")
    huge = human_size(page * page // 8) if page else "a huge page"
    shared = asked.text_or_none("host.thp.shmem") in SHMEM_THP
    return Finding(
        "warning" if stalls else "note",
        f"enabled = always, defrag = {defrag or 'unknown'}",
        f"{_SHARED if shared else _PRIVATE}; "
        + (
            "every page fault may wait for memory compaction"
            if stalls
            else "khugepaged copies pages into huge ones in the background"
        )
        + f", and a process that touches a byte may take {huge}",
        (
            *on_the_host(asked),
            f"echo madvise > {THP_FILE}",
            "# to keep it: transparent_hugepage=madvise on the kernel's command line",
        ),
        "now",
        f"cat {THP_FILE}",
    )


RULE = DoctorRule(
    "transparent-huge-pages",
    "Does the kernel use transparent huge pages for the private memory of every process?",
    "enabled is always (a warning when defrag is always, too)",
    "Percona, Settling the Myth of Transparent HugePages for Databases (2019): no gain; kernel "
    "Documentation/admin-guide/mm/transhuge.rst; PostgreSQL's manual, huge_pages",
    _judge,
    ("transparent huge page",),
)
