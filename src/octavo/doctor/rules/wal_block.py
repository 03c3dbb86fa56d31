"""A WAL block that is smaller than a memory page."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import format_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    block, page = asked.whole("setting.wal_block_size"), asked.whole("host.memory.page_bytes")
    if block >= page:
        return Ok(f"WAL blocks of {format_size(block)}, memory pages of {format_size(page)}")
    return Finding(
        "note",
        f"WAL blocks of {format_size(block)} are parts of memory pages of {format_size(page)}",
        f"a write of one block into a recycled segment that is not cached reads {format_size(page)} first, and each "
        f"commit writes up to {page // block} times the block",
        (
            (f"octavo build --wal-block {format_size(page)}",)
            if page <= 65536
            else ("# no build of PostgreSQL has WAL blocks so large: a kernel with 4 kB pages",)
        ),
        "a new data directory (WAL geometry is fixed at initdb)",
        "SHOW wal_block_size;",
    )


RULE = DoctorRule(
    "wal-block",
    "Are WAL blocks whole memory pages?",
    "the WAL block is smaller than the memory page",
    "PostgreSQL src/backend/access/transam/xlog.c (XLogWrite); the preset oltp-blocks-wal measures it",
    _judge,
    ("WAL block",),
)
