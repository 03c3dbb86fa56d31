"""The kernel's readahead, on which sequential scans depend before PostgreSQL 17."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import format_size

_DEFAULT = 128 * 1024
_ITSELF = 170000  # io_combine_limit


def _judge(asked: RuleFacts) -> Ok | Finding:
    ahead, block = asked.whole("host.device.readahead_bytes"), asked.whole("setting.block_size")
    version = asked.whole("server.version_number")
    if version >= _ITSELF:
        return Ok(f"readahead {format_size(ahead)}; PostgreSQL 17 and later makes large requests itself")
    if ahead >= 2 * block:
        return Ok(f"readahead {format_size(ahead)}")
    name = asked.text("host.device.name")
    return Finding(
        "warning",
        f"readahead of {name} is {format_size(ahead)}, and PostgreSQL before 17 reads block by block",
        f"a sequential scan of 100 MB/s makes {100 * 1024**2 // max(block, ahead):,} requests/s; with 128 kB read "
        f"ahead {100 * 1024**2 // _DEFAULT:,}",
        (
            f"echo 128 > /sys/block/{name}/queue/read_ahead_kb",
            "# to keep it: a udev rule, ATTR{queue/read_ahead_kb}",
        ),
        "now",
        f"cat /sys/block/{name}/queue/read_ahead_kb",
    )


RULE = DoctorRule(
    "readahead",
    "Do sequential scans get large requests?",
    "readahead is less than two data blocks, and PostgreSQL is older than 17",
    "PostgreSQL reads each 8k block (a mailing-list thread, 2009): 100 MB/s are 12,500 IOPS of 8 kB, 781 of 128 kB",
    _judge,
    ("readahead",),
)
