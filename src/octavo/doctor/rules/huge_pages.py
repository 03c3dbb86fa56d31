"""Huge pages that a server could use and does not."""

from octavo.doctor.amounts import SHMEM_THP, HugePages, huge_pages, memory_bytes, on_huge_pages, percent, tables_each
from octavo.doctor.engine import DoctorRule, Finding, Ok, Severity
from octavo.doctor.facts import RuleFacts
from octavo.doctor.huge_page_lines import lines_to_take
from octavo.units import human_size

_MUCH, _SOME, _FEW_BYTES = 0.05, 0.01, 256 * 1024**2


def _judge(asked: RuleFacts) -> Ok | Finding:
    setting = asked.text("setting.huge_pages")
    if on_huge_pages(asked):
        return Ok(f"shared memory is in huge pages (huge_pages = {setting})")
    wanted = huge_pages(asked)
    connections, small = asked.whole("setting.max_connections"), asked.whole("host.memory.page_bytes")
    before = tables_each(asked, small) * connections
    saved = before - tables_each(asked, wanted.pool.page) * connections
    share = saved / memory_bytes(asked)
    cost = (
        f"page tables of {connections:,} connections that have touched all of shared memory: {human_size(before)}, of "
        f"which huge pages save {human_size(saved)} ({percent(share)} of the memory)"
    )
    # If other programs use the pool, its free pages may be meant for them.
    if setting == "try" and wanted.pool.available and not wanted.pool.in_use:
        idle = wanted.pool.available * wanted.pool.page
        return _finding(
            asked, wanted, "warning",
            f"huge_pages = try silently fell back to small pages, while {wanted.pool.available:,} huge pages of "
            f"{human_size(wanted.pool.page)} are free ({wanted.needed:,} are needed)",
            f"{human_size(idle)} of memory are reserved and unused; {cost}",
        )  # fmt: skip
    if asked.text_or_none("host.thp.shmem") in SHMEM_THP:
        return Ok(f"small pages, which shmem_enabled = {asked.text('host.thp.shmem')} may make transparent huge ones")
    severity: Severity = "warning" if share >= _MUCH else "note"
    if share < _SOME or saved < _FEW_BYTES:
        return Ok(f"huge_pages = {setting}, small pages in use; {cost}: too little to matter")
    free = f"{wanted.pool.available:,} huge pages are free and {wanted.needed:,} needed"
    silent = f"huge_pages = {setting} silently fell back to small pages: {free}"
    seen = "huge_pages = off" if setting == "off" else silent
    return _finding(asked, wanted, severity, seen, cost)


def _finding(asked: RuleFacts, wanted: HugePages, severity: Severity, seen: str, cost: str) -> Finding:
    return Finding(
        severity,
        seen,
        cost,
        lines_to_take(asked, wanted),
        "restart",
        "octavo hugepages verify",
    )


RULE = DoctorRule(
    "huge-pages",
    "Is shared memory in huge pages where that saves memory?",
    "huge_pages = try fell back although there is an unused pool; or page tables at max_connections would take 1 % of "
    "the memory, and 256 MB, more than with huge pages (5 %: a warning)",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021): 25 GB of page tables at 80 "
    "connections, 61 MB with huge pages; PostgreSQL's manual, huge_pages and huge_pages_status",
    _judge,
    ("huge page",),
)
