"""A pool of huge pages that is too small for the next start, or larger than needed."""

from octavo.doctor.amounts import huge_pages, is_on_huge_pages, on_huge_pages, percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.huge_page_lines import lines_to_set, lines_to_take
from octavo.doctor.lines import on_the_host
from octavo.hugepages.advice import FAILURES
from octavo.hugepages.needed import unsettled
from octavo.units import human_size

_MUCH, _SOME = 0.10, 0.03
# PostgreSQL requests one page more than it maps if its memory is a multiple of the page size.
_ONE_MORE = 1


def _judge(asked: RuleFacts) -> Ok | Finding:
    setting = asked.text("setting.huge_pages")
    if not _uses(asked, setting):
        raise NotApplicableError("the server does not use huge pages; the pool's purpose is not known")
    running = is_on_huge_pages(asked)
    start = "a restart" if running else "the start"
    wanted = huge_pages(asked)
    pool, size = wanted.pool, human_size(wanted.pool.page)
    seen = f"pool of {size}: {pool.total:,} pages, {pool.available:,} neither used nor reserved"
    short = pool.short(wanted.needed, wanted.held)
    if short > _ONE_MORE:
        return Finding(
            "warning" if running else "error",
            f"{seen}; {start} needs {wanted.needed:,} and lacks {short:,}",
            f"{human_size(short * pool.page)} of huge pages are missing for {start}: huge_pages = {setting}: "
            f"{FAILURES[setting]}",
            lines_to_take(asked, wanted),
            "now",
            "octavo hugepages verify",
        )
    idle = pool.available * pool.page
    share = idle / asked.whole("host.memory.total_bytes")  # whatever a control group may have of it
    if share < _SOME or not running:
        return Ok(f"{seen}; {wanted.needed:,} needed")
    if waiting := unsettled(asked.words_or_none("server.pending_restart") or ()):
        return Ok(f"{seen}; settings that wait for a restart may need them ({', '.join(waiting)})")
    return Finding(
        "warning" if share >= _MUCH else "note",
        f"{seen}, and the server on them needs {wanted.needed:,}",
        f"{human_size(idle)} ({percent(share)} of the memory) can be used by nothing else",
        (
            "# unless they are for another server, which is stopped now",
            *on_the_host(asked),
            *lines_to_set(asked, wanted, pool.total - pool.available),
        ),
        "now",
        "grep ^HugePages /proc/meminfo",
    )


def _uses(asked: RuleFacts, setting: str) -> bool:
    """Whether the server is on huge pages, or stopped and starts on nothing else."""
    try:
        return on_huge_pages(asked)
    except NotApplicableError:
        if setting != "on":
            raise
        return True


RULE = DoctorRule(
    "huge-pages-pool",
    "Does the pool have the huge pages that the server needs, and not many more?",
    "a restart would lack pages (an error for a stopped server with huge_pages = on, which does not start), or 3 % of "
    "the memory or more are unused huge pages (10 %: a warning) and no setting waits for a restart that may need them",
    "kernel Documentation/admin-guide/mm/hugetlbpage.rst; PostgreSQL's manual, shared_memory_size_in_huge_pages",
    _judge,
    ("huge page",),
)
