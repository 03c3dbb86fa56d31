"""shared_buffers against the available memory, and the page cache next to it."""

from octavo.doctor.amounts import memory_bytes, percent, set_buffers
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import Sql
from octavo.units import format_size, human_size

_LARGE, _DEFAULT = 0.60, 128 * 1024**2
_ROOMY, _MANY_TIMES = 4 * 1024**3, 8
_MB, _TINY = 1024**2, 8 * 1024**2


def _judge(asked: RuleFacts) -> Ok | Finding:
    buffers, memory = asked.whole("setting.shared_buffers"), memory_bytes(asked)
    share = buffers / memory
    seen = f"shared_buffers = {format_size(buffers)}, {percent(share)} of {human_size(memory)}"
    quarter = memory // 4 // _MB * _MB
    fits = buffers < memory
    if not fits or (share > _LARGE and "data" not in (asked.text_or_none("setting.debug_io_direct") or "")):
        return Finding(
            "warning",
            seen if fits else f"shared_buffers = {format_size(buffers)}, and the memory is {human_size(memory)}",
            f"{human_size(memory - buffers)} are left for page cache, page tables and all that backends sort and hash"
            if fits
            else f"{human_size(buffers - memory)} more than there is: the server does not start, or swaps or is killed "
            "once its buffers are in use",
            set_buffers(asked, quarter),
            "restart",
            "SHOW shared_buffers;",
        )
    if buffers < _TINY and memory >= _ROOMY:
        blocks, connections = buffers // asked.whole("setting.block_size"), asked.whole("setting.max_connections")
        return Finding(
            "warning",
            f"{seen}; initdb chooses so small a value only if its test servers crash",
            f"{blocks:,} blocks for up to {connections:,} connections; a Bus error from huge pages during initdb "
            "leaves this behind, and a small max_connections",
            (*set_buffers(asked, _DEFAULT), Sql("SHOW max_connections;   -- 100 by default")),
            "restart",
            "SHOW shared_buffers;",
        )
    if buffers > _DEFAULT or memory < _ROOMY:
        return Ok(seen)
    size = asked.whole("server.databases_bytes")
    if size < _MANY_TIMES * buffers:
        return Ok(f"{seen}; the databases take {human_size(size)}")
    return Finding(
        "note",
        f"{seen}; the databases take {human_size(size)}",
        f"{percent(buffers / size)} of the data fit; everything else is copied from the page cache, a system call for "
        "each block, or read again",
        set_buffers(asked, quarter),
        "restart",
        "SHOW shared_buffers;",
    )


RULE = DoctorRule(
    "shared-buffers",
    "Does shared_buffers fit the memory?",
    "shared_buffers is more than 60 % of the memory, or is the default of 128 MB with 4 GB of memory or more and "
    "databases of eight times its size, or it is less than 8 MB (a warning)",
    "PostgreSQL's manual, shared_buffers (a quarter of memory to begin with, not more than 40 %)",
    _judge,
    ("shared_buffers",),
)
