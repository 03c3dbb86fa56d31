"""Huge pages of a size that does not exist here, or so large that much of the last one is wasted."""

from octavo.doctor.amounts import huge_pages, is_on_huge_pages, percent, pools, shared_memory
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import alter
from octavo.units import format_size, human_size

_MOST_WASTED = 0.25
_MB = 1024**2
_LEAST_BYTES = 512 * _MB
_CHOOSES = 140000  # has huge_page_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    if asked.text("setting.huge_pages") == "off":
        raise NotApplicableError("huge_pages = off")
    wanted = huge_pages(asked)
    page, memory = wanted.pool.page, shared_memory(asked)
    if not is_on_huge_pages(asked):
        other = next((one for one in pools(asked) if one.page != page and one.available * one.page >= memory), None)
        if wanted.pool.available >= wanted.needed:
            return Ok(f"pages of {human_size(page)} are requested, of which {wanted.pool.available:,} are free")
        if other is None:
            return Ok(f"pages of {human_size(page)} are requested, and no other pool would suffice")
        if (asked.whole_or_none("server.version_number") or _CHOOSES) < _CHOOSES:
            return Ok(f"before 14 PostgreSQL uses pages of the kernel's default size only, {human_size(page)}")
        size = format_size(other.page)
        return Finding(
            "warning",
            f"the server requests pages of {human_size(page)}, of which {wanted.pool.available:,} are free; of "
            f"{human_size(other.page)} {other.available:,} are",
            f"{human_size(other.available * other.page)} of huge pages are unused, and the server uses small pages",
            (alter("huge_page_size", size),),
            "restart",
            "SHOW huge_page_size;",
        )
    wasted = wanted.needed * page - memory
    if wasted < _MOST_WASTED * memory or wasted < _LEAST_BYTES:
        return Ok(f"pages of {human_size(page)}; {human_size(max(0, wasted))} of the last one are unused")
    # The increase is in proportion to all of shared memory, which grows no faster than the buffers.
    larger = asked.whole("setting.shared_buffers") * wanted.needed * page // memory // _MB * _MB
    return Finding(
        "note",
        f"{human_size(memory)} of shared memory in {wanted.needed:,} pages of {human_size(page)}",
        f"{human_size(wasted)} of the last page are unused, {percent(wasted / memory)} of shared memory",
        ("# fill the page, which is reserved already:", alter("shared_buffers", format_size(larger))),
        "restart",
        "SHOW shared_memory_size;",
    )


RULE = DoctorRule(
    "huge-page-size",
    "Do the huge pages have the size that the server requests?",
    "huge pages of another size are free and would suffice; or rounding up to whole pages wastes at least 512 MB and "
    "25 % of shared memory",
    "PostgreSQL's manual, huge_page_size; 2 GB of shared_buffers take 3 GB in pages of 1 GB (docs/hugepages.md)",
    _judge,
    ("huge page",),
)
