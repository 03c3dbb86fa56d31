"""Page tables: those that the server has now, and those that it would have at max_connections."""

from octavo.doctor.amounts import (
    SHMEM_THP,
    huge_pages,
    memory_bytes,
    on_huge_pages,
    percent,
    shared_memory,
    tables_each,
)
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts, UnknownError
from octavo.doctor.huge_page_lines import lines_to_take
from octavo.doctor.lines import Line
from octavo.units import human_size

_MUCH_NOW, _MUCH = 0.05, 0.10


def _judge(asked: RuleFacts) -> Ok | Finding:
    memory, now = memory_bytes(asked), asked.whole("host.process.page_tables_bytes")
    count, connections = asked.whole("host.process.count"), asked.whole("setting.max_connections")
    seen = f"{human_size(now)} of page tables in {count:,} processes"
    if on_huge_pages(asked):
        return Ok(f"{seen}; shared memory is in huge pages")
    # Transparent huge pages depend on unfragmented memory, so only the present state counts then.
    transparent = asked.text_or_none("host.thp.shmem") in SHMEM_THP
    if transparent and now < _MUCH_NOW * memory:
        return Ok(
            f"{seen}; shmem_enabled = {asked.text('host.thp.shmem')} may make shared memory transparent huge pages"
        )
    each = tables_each(asked, asked.whole("host.memory.page_bytes"))
    every = each * connections
    available = min(memory, asked.whole("host.memory.available_bytes"))
    last = int((available + now) // each) if each else connections
    seen += f"; each can grow to {human_size(each)}"
    if now < _MUCH_NOW * memory and every < _MUCH * memory:
        return Ok(f"{seen}: {human_size(every)} at max_connections = {connections:,}")
    hits = (
        f"; the available memory is used up by {last:,} connections that have touched all of shared memory"
        if last < connections
        else ""
    )
    dies = shared_memory(asked) + every > memory
    return Finding(
        "error" if dies and now >= _MUCH_NOW * memory else "warning",
        seen,
        f"now {percent(now / memory)} of the memory, at max_connections = {connections:,}: {human_size(every)} "
        f"({percent(every / memory)}){hits}",
        (*_huge(asked), "# or fewer connections: a pooler, and max_connections"),
        "restart",
        "grep PageTables /proc/meminfo",
    )


def _huge(asked: RuleFacts) -> tuple[Line, ...]:
    """The lines for huge pages; if this kernel has none, those for a pooler."""
    try:
        return lines_to_take(asked, huge_pages(asked))
    except (UnknownError, NotApplicableError):
        return ("# pgbouncer.ini", "pool_mode = transaction")


RULE = DoctorRule(
    "page-tables",
    "How much memory do page tables take, now and at max_connections?",
    "page tables take 5 % of the memory, or would take 10 % at max_connections; an error if they take 5 % now, and at "
    "max_connections memory would not suffice",
    "Percona, Why Linux HugePages are Super Important for Database Servers (2021); proc_pid_status(5), VmPTE; kernel "
    "Documentation/mm/page_tables.rst",
    _judge,
    ("CPU memory page",),
)
