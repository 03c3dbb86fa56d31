"""Huge pages that are lost at the next boot."""

from octavo.doctor.amounts import huge_pages, on_huge_pages
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.huge_page_lines import lines_to_take
from octavo.hugepages.advice import FAILURES
from octavo.units import human_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    setting = asked.text("setting.huge_pages")
    if not on_huge_pages(asked):
        raise NotApplicableError("the server does not use huge pages")
    if container := asked.text_or_none("host.container"):
        raise NotApplicableError(f"a container ({container}) does not see what its host sets at boot")
    wanted = huge_pages(asked)
    pool = wanted.pool
    said = next((one for one in asked.rows("host.huge.at_boot") if one["page_bytes"] == pool.page), None)
    pages = said["pages"] if said else 0
    if pages + 1 >= wanted.needed:
        return Ok(f"{pages:,} pages of {human_size(pool.page)} at boot ({said and said['said_by']})")
    return Finding(
        "note",
        f"{pages:,} pages of {human_size(pool.page)} are set at boot, {wanted.needed:,} are needed (pages that a unit "
        "or a script of this machine sets are not visible)",
        f"{human_size((wanted.needed - pages) * pool.page)} of huge pages are missing after a boot: huge_pages = "
        f"{setting}: "
        f"{FAILURES[setting]}",
        lines_to_take(asked, wanted),
        "now",
        "octavo hugepages verify",
    )


RULE = DoctorRule(
    "huge-pages-boot",
    "Will the huge pages be there after a boot?",
    "the server uses huge pages, and sysctl files and kernel command line allocate fewer than it needs",
    "sysctl.d(5); kernel Documentation/admin-guide/kernel-parameters.txt",
    _judge,
    ("huge page",),
)
