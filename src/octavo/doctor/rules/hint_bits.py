"""Sequential scans that write: they set hint bits of rows that nothing has read before."""

from octavo.doctor.amounts import is_standby, percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import Sql
from octavo.units import human_size

_ENOUGH, _MUCH = 1024**3, 0.10


def _judge(asked: RuleFacts) -> Ok | Finding:
    block, size = asked.whole("setting.block_size"), asked.whole("server.scans.read_bytes")
    if size < _ENOUGH:
        raise NotApplicableError(f"large scans have read {human_size(size)}; 1 GB is needed")
    written = asked.whole("server.scans.writes") * block
    seen = f"large scans read {human_size(size)} and wrote {human_size(written)}"
    if written < _MUCH * size:
        return Ok(seen)
    standby = is_standby(asked)
    if standby and asked.has("setting.data_checksums") and asked.flag("setting.data_checksums"):
        return Ok(f"{seen}: blocks that WAL changed, because with data checksums a standby's hint bits are not written")
    return Finding(
        "note",
        seen,
        f"the scans themselves wrote {percent(written / size)} of what they read, while their queries waited: mostly "
        "hint bits, which the first reader of a row sets",
        (
            *(("# on the primary:",) if standby else ()),
            Sql("VACUUM (FREEZE, ANALYZE) TABLE;   -- after each bulk load; writes the table once"),
        ),
        "now",
        "SELECT sum(reads), sum(writes) FROM pg_stat_io WHERE context = 'bulkread';",
    )


RULE = DoctorRule(
    "hint-bits",
    "Do sequential scans write?",
    "large scans wrote 10 % or more of what they read (pg_stat_io, 16 and later; not on a standby with data checksums)",
    "PostgreSQL reads each 8k block (a mailing-list thread, 2009): the slow scan was setting hint bits; PostgreSQL "
    "wiki, Hint Bits; src/backend/storage/buffer/bufmgr.c (MarkBufferDirtyHint)",
    _judge,
)
