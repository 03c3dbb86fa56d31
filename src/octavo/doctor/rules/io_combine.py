"""io_combine_limit: the largest number of blocks in one request of PostgreSQL."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import RELOAD, alter
from octavo.units import format_size, human_size

_DEFAULT = 128 * 1024
_MORE_BLOCKS = 180000
_SCAN = 100 * 1024**2


def _judge(asked: RuleFacts) -> Ok | Finding:
    limit, block = asked.whole("setting.io_combine_limit"), asked.whole("setting.block_size")
    most = asked.whole_or_none("setting.io_max_combine_limit")
    if most is not None and limit > most:
        return Finding(
            "note",
            f"io_combine_limit is {human_size(limit)}, and io_max_combine_limit allows {human_size(most)}",
            f"requests are at most {human_size(most)}: {_SCAN // most:,} a second for 100 MB/s, not {_SCAN // limit:,}",
            (alter("io_max_combine_limit", format_size(limit)),),
            "restart",
            "SHOW io_max_combine_limit;",
        )
    # The maximum is 32 blocks in 17 and 128 since 18; with small blocks this is also the default.
    blocks = 128 if asked.whole("server.version_number") >= _MORE_BLOCKS else 32
    default = min(_DEFAULT, blocks * block)
    if limit < default:
        return Finding(
            "note",
            f"io_combine_limit is {human_size(limit)}, less than its default of {human_size(default)}",
            f"a scan of 100 MB/s makes {_SCAN // limit:,} requests/s; by default {_SCAN // default:,}",
            (alter("io_combine_limit", format_size(default)), RELOAD),
            "reload",
            "SHOW io_combine_limit;",
        )
    return Ok(f"io_combine_limit = {format_size(limit)}")


RULE = DoctorRule(
    "io-combine-limit",
    "Is PostgreSQL's limit on request sizes large enough?",
    "io_combine_limit is below its default, or above io_max_combine_limit",
    "PostgreSQL's manual, io_combine_limit (17) and io_max_combine_limit (18); PostgreSQL reads each 8k block (a "
    "mailing-list thread, 2009): 12,500 against 781 IOPS for 100 MB/s",
    _judge,
    ("I/O request",),
)
