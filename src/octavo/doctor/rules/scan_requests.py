"""The size of the requests that sequential scans really made."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import RELOAD
from octavo.units import human_size

_COUNTS_BYTES = 180000
_ENOUGH, _SMALL, _DEFAULT = 10_000, 32 * 1024, 128 * 1024
_SCAN = 100 * 1024**2
_DISK = 140  # requests a second of one rotating disk, as in the thread


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
    small, large = int(_SCAN / each), _SCAN // _DEFAULT
    return Finding(
        "note",
        seen,
        f"100 MB/s of scan are {small:,} requests/s; with 128 kB per request {large:,}. In rotating disks of {_DISK} "
        f"per second each: {-(-small // _DISK)} against {-(-large // _DISK)}; the same holds for provisioned IOPS",
        ("ALTER SYSTEM RESET io_combine_limit;", RELOAD,
         "# and larger shared_buffers: a small one limits how much is read at once"),
        "reload",
        "SELECT sum(read_bytes) / sum(reads) FROM pg_stat_io WHERE context = 'bulkread';",
    )  # fmt: skip


RULE = DoctorRule(
    "scan-requests",
    "Do large scans read in large requests?",
    "10,000 requests or more of large scans are less than two blocks each on average (18 and later)",
    "PostgreSQL reads each 8k block (a mailing-list thread, 2009): 90 disks against 6 for 100 MB/s",
    _judge,
    ("I/O request",),
)
