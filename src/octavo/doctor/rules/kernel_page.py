"""A memory page of the kernel, or a filesystem block, that is larger than PostgreSQL's data block."""

from octavo.doctor.amounts import least_read, percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.kernel_page_lines import lines_for_smaller_pages
from octavo.units import human_size

_MUCH = 4


def _judge(asked: RuleFacts) -> Ok | Finding:
    block = asked.whole("setting.block_size")
    if "data" in (asked.text_or_none("setting.debug_io_direct") or ""):
        raise NotApplicableError("debug_io_direct = data: no page cache is used")
    unit, page = least_read(asked), asked.whole("host.memory.page_bytes")
    if unit <= block:
        return Ok(f"the smallest read from storage is {human_size(unit)}, a data block {human_size(block)}")
    buffers, size = asked.whole("setting.shared_buffers"), asked.whole_or_none("server.databases_bytes")
    if size is not None and size <= buffers:
        return Ok(f"pages of {human_size(unit)}, but all databases ({human_size(size)}) fit in shared_buffers")
    factor = unit // block
    of = "memory pages" if unit == page else "filesystem blocks"
    available = asked.whole_or_none("host.memory.available_bytes")
    cached = (
        f"; {human_size(available)} of page cache hold {available // unit:,} scattered blocks instead of "
        f"{available // block:,}" if available else ""
    )  # fmt: skip
    fix, takes, check = lines_for_smaller_pages(asked)
    return Finding(
        "warning" if factor >= _MUCH else "note",
        f"{of} of {human_size(unit)} under data blocks of {human_size(block)}",
        f"a random read of {human_size(block)} that misses both caches reads {human_size(unit)}: {factor} times the "
        f"bytes ({percent(1 - 1 / factor)} of them unused), so a volume reaches its throughput limit at 1/"
        f"{factor} of the reads{cached}",
        fix,
        takes,
        check,
    )


RULE = DoctorRule(
    "kernel-page",
    "Is a data block smaller than the kernel's smallest read?",
    "the memory page or the filesystem's block is larger than a data block (a warning from four times on), and "
    "the databases are larger than shared_buffers",
    "Franck Pachot, PostgreSQL on ARM: default page size matters (2022): the same query 1 s at 4 kB and 87 s at 64 kB",
    _judge,
    ("CPU memory page", "data block", "filesystem block"),
    volumes=("tables",),
)
