"""effective_cache_size against memory."""

from octavo.doctor.amounts import memory_bytes, percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import RELOAD, alter
from octavo.units import format_size, human_size

_SMALL, _ROOMY, _MB = 0.15, 16 * 1024**3, 1024**2


def _judge(asked: RuleFacts) -> Ok | Finding:
    cache, memory = asked.whole("setting.effective_cache_size"), memory_bytes(asked)
    buffers = asked.whole("setting.shared_buffers")
    seen = f"effective_cache_size = {format_size(cache)}, {percent(cache / memory)} of {human_size(memory)}"
    should = max(buffers, memory * 7 // 10) // _MB * _MB
    if cache > memory:
        cost = f"the planner counts on {human_size(cache - memory)} of cache that this machine does not have"
    elif cache < buffers:
        cost = f"the planner counts on less cache than shared_buffers alone ({human_size(buffers)})"
    elif cache < _SMALL * memory and memory >= _ROOMY:
        cost = (
            f"the planner assumes that tables above {human_size(cache)} are uncached; about "
            f"{human_size(should)} can be cached: nested loops over indexes are costed too high"
        )
    else:
        return Ok(seen)
    return Finding(
        "note", seen, cost, (alter("effective_cache_size", format_size(should)), RELOAD), "reload",
        "SHOW effective_cache_size;",
    )  # fmt: skip


RULE = DoctorRule(
    "effective-cache-size",
    "Does the planner assume the right cache size?",
    "effective_cache_size is more than the memory, less than shared_buffers, or, with 16 GB of memory or more, less "
    "than 15 % of it (its default counts blocks: 4 GB at 8 kB, 512 MB at 1 kB, 16 GB at 32 kB)",
    "PostgreSQL's manual, effective_cache_size",
    _judge,
)
