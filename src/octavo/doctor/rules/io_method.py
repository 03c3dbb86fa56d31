"""io_method = sync, although PostgreSQL could read asynchronously."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import alter
from octavo.units import human_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    method = asked.text("setting.io_method")
    if method != "sync":
        return Ok(f"io_method = {method}")
    requests, limit = asked.whole("setting.effective_io_concurrency"), asked.whole("setting.io_combine_limit")
    if not requests:
        return Ok("io_method = sync; effective_io_concurrency = 0 turns asynchronous reads off with any other, too")
    workers = asked.whole_or_none("setting.io_workers")
    at_once = f"; io_workers = {workers} of them at a time with worker" if workers else ""
    ahead = asked.whole_or_none("host.device.readahead_bytes")
    of_kernel = f" ({human_size(ahead)})" if ahead is not None else ""
    return Finding(
        "note",
        "io_method = sync",
        f"a sequential scan has in flight what the kernel reads ahead{of_kernel}; with worker or io_uring it has up to "
        f"{requests} requests of {human_size(limit)} (effective_io_concurrency, io_combine_limit{at_once})",
        (alter("io_method", "worker"),),
        "restart",
        "SHOW io_method;",
    )


RULE = DoctorRule(
    "io-method",
    "Are reads asynchronous?",
    "io_method is sync (PostgreSQL 18 and later), and effective_io_concurrency is not 0",
    "PostgreSQL's manual, io_method and effective_io_concurrency; src/backend/storage/aio/read_stream.c (what sync "
    "leaves to the kernel)",
    _judge,
)
