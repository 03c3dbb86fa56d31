"""The actual size of the requests of sequential scans."""

from octavo.doctor.amounts import set_buffers
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import RELOAD, Line, alter
from octavo.units import format_size, human_size

_COUNTS_BYTES = 180000
_ENOUGH, _SMALL, _DEFAULT = 10_000, 32 * 1024, 128 * 1024
_MB = 1024**2
_SCAN = 100 * _MB
_OF_THE_SERVER = 2 + 38  # special workers and auxiliary processes (NUM_…_PROCS in storage/proc.h of 18)
_DISK = 140  # requests per second of one rotating disk, as in the cited thread


def _judge(asked: RuleFacts) -> Ok | Finding:
    if asked.whole("server.version_number") < _COUNTS_BYTES:
        raise NotApplicableError("before 18 requests are counted by blocks")
    reads, size = asked.whole("server.scans.reads"), asked.whole("server.scans.read_bytes")
    block = asked.whole("setting.block_size")
    if reads < _ENOUGH:
        raise NotApplicableError(f"{reads:,} requests of large scans so far; {_ENOUGH:,} are needed")
    each = size / reads
    seen = f"{reads:,} requests of large scans, {human_size(each)} each"
    if each >= _SMALL or each >= 2 * block:
        return Ok(seen)
    # If a table is largely cached, the missing blocks are read in small pieces.
    hits = (asked.whole_or_none("server.scans.hits") or 0) * block
    if hits > size:
        return Ok(f"{seen}; {human_size(hits)} were found in shared_buffers")
    limit, shares = asked.whole("setting.io_combine_limit"), _shares(asked)
    allowed = asked.whole("setting.shared_buffers") // shares
    lines, takes = _lines(asked, limit, allowed, shares)
    if not lines:
        return Ok(f"{seen}; io_combine_limit and shared_buffers allow larger ones")
    small, large = int(_SCAN / each), _SCAN // _DEFAULT
    return Finding(
        "note",
        f"{seen}; io_combine_limit is {human_size(limit)}, and a backend may pin {human_size(allowed)} of buffers",
        f"a scan of 100 MB/s makes {small:,} requests/s; with 128 kB per request {large:,}. With {_DISK} IOPS per "
        f"rotating disk that is {-(-small // _DISK)} disks against {-(-large // _DISK)}; the same ratio applies to "
        "provisioned IOPS",
        lines,
        takes,
        "SELECT sum(read_bytes) / sum(reads) FROM pg_stat_io WHERE context = 'bulkread';",
    )


def _shares(asked: RuleFacts) -> int:
    """The processes among which the buffers are divided for what each may pin at once (MaxProportionalPins)."""
    others = ("autovacuum_worker_slots", "max_worker_processes", "max_wal_senders")
    more = sum(asked.whole_or_none(f"setting.{name}") or 0 for name in others)
    return asked.whole("setting.max_connections") + more + _OF_THE_SERVER


def _lines(asked: RuleFacts, limit: int, allowed: int, shares: int) -> tuple[tuple[Line, ...], str]:
    """The lines for larger requests, and what puts them into effect; none if both limits already allow them."""
    if limit < _DEFAULT:
        return (alter("io_combine_limit", format_size(_DEFAULT)), RELOAD), "reload"
    if allowed < limit:
        wanted = -(-limit * shares // _MB) * _MB
        return (*set_buffers(asked, wanted), "# or fewer connections: max_connections, and a pooler"), "restart"
    return (), ""


RULE = DoctorRule(
    "scan-requests",
    "Do large scans read in large requests?",
    "large scans have made 10,000 requests or more, of less than two blocks on average (18 and later), because "
    "io_combine_limit, or what each process may pin of shared_buffers, is too small",
    "PostgreSQL reads each 8k block (a mailing-list thread, 2009): 90 disks against 6 for 100 MB/s; "
    "PostgreSQL src/backend/storage/buffer/bufmgr.c (MaxProportionalPins)",
    _judge,
    ("I/O request",),
)
