"""Blocks that both shared_buffers and the page cache hold."""

from octavo.doctor.amounts import memory_bytes, percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts, UnknownError
from octavo.doctor.lines import alter
from octavo.units import format_size, human_size

_MUCH, _BEYOND_ADVICE, _MB = 0.15, 0.40, 1024**2


def _judge(asked: RuleFacts) -> Ok | Finding:
    if "data" in (asked.text_or_none("setting.debug_io_direct") or ""):
        raise NotApplicableError("debug_io_direct = data: no page cache is used")
    asked.whole("host.process.count")  # a stopped server has no processes
    if asked.text_or_none("host.fs.type") == "zfs":
        raise UnknownError("zfs caches files in its ARC, which is not in Cached (/proc/meminfo), nor for cachestat(2)")
    buffers, memory = asked.whole("setting.shared_buffers"), memory_bytes(asked)
    share, used = (asked.number_or_none(f"server.buffers.{name}") for name in ("in_page_cache_share", "used_bytes"))
    if share is None or used is None:
        files = asked.whole("host.memory.file_cache_bytes")
        return Ok(
            f"at most {human_size(min(buffers, files))} are buffered twice (an estimate: shared_buffers or page cache, "
            f"whichever is smaller: {asked.why_not('server.buffers.in_page_cache_share')})"
        )
    twice = share * used
    seen = f"{human_size(twice)} of the {human_size(used)} in shared_buffers are also in the page cache"
    if twice < _MUCH * memory or buffers <= _BEYOND_ADVICE * memory:
        return Ok(f"{seen} ({percent(twice / memory)} of the memory)")
    block, size = asked.whole("setting.block_size"), asked.whole_or_none("server.databases_bytes")
    if size is not None and size <= buffers:
        return Ok(f"{seen}; but all databases fit in shared_buffers")
    return Finding(
        "note",
        f"{seen}; shared_buffers are {percent(buffers / memory)} of the memory",
        f"{percent(twice / memory)} of the memory hold copies: without them {int(twice // block):,} more blocks of "
        f"{human_size(block)} would be cached" + (f", {percent(twice / size)} of the databases" if size else ""),
        (alter("shared_buffers", format_size(memory // 4 // _MB * _MB)),),
        "restart",
        "octavo doctor --verbose | grep double-buffering",
    )


RULE = DoctorRule(
    "double-buffering",
    "How much memory holds the same blocks in shared_buffers and page cache?",
    "shared_buffers is more than 40 % of the memory, and those of its blocks that are also in the page cache take 15 % "
    "of the memory (measured with pg_buffercache; without it an estimate, and no finding)",
    "PostgreSQL's manual, shared_buffers (more than 40 % is unlikely to work better) and pg_buffercache; cachestat(2), "
    "kernel mm/filemap.c",
    _judge,
    ("shared_buffers",),
)
