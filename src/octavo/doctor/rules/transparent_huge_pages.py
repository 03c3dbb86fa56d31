"""Transparent huge pages for every process."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.host.checks.memory import THP_FILE

_PRIVATE = "only private memory gets them (sorts, hashes); shared_buffers does not"


def _judge(asked: RuleFacts) -> Ok | Finding:
    mode, defrag = asked.text("host.thp.enabled"), asked.text_or_none("host.thp.defrag")
    if mode != "always":
        return Ok(f"enabled = {mode}")
    stalls = defrag == "always"
    return Finding(
        "warning" if stalls else "note",
        f"enabled = always, defrag = {defrag or 'unknown'}",
        f"{_PRIVATE}; "
        + ("every fault may stop to compact memory" if stalls else "khugepaged copies memory together meanwhile")
        + ", and a process that touches a byte may take 2 MB",
        (f"echo madvise > {THP_FILE}", "# to keep it: transparent_hugepage=madvise on the kernel's command line"),
        "now",
        f"cat {THP_FILE}",
    )


RULE = DoctorRule(
    "transparent-huge-pages",
    "Does the kernel make huge pages out of private memory by itself?",
    "enabled is always (a warning when defrag is always, too)",
    "Percona, Settling the Myth of Transparent HugePages for Databases (2019): no gain, at times a loss; kernel "
    "Documentation/admin-guide/mm/transhuge.rst; PostgreSQL's manual, huge_pages",
    _judge,
    ("transparent huge page",),
)
