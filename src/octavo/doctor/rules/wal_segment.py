"""WAL segments that fill faster than one per second."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import Line, alter, service_of
from octavo.units import format_size, human_size

_SETTLED = 3600.0
_MOST = 1.0


def _judge(asked: RuleFacts) -> Ok | Finding:
    segment = asked.whole("setting.wal_segment_size")
    if asked.flag("server.in_recovery"):
        raise NotApplicableError("a standby does not write WAL of its own")
    written, seconds = asked.whole("server.wal.bytes"), asked.number("server.wal.seconds")
    if seconds < _SETTLED:
        raise NotApplicableError(f"statistics are {seconds / 60:.0f} minutes old; an hour is needed")
    rate = written / seconds
    if rate / segment <= _MOST:
        return Ok(f"{human_size(rate)}/s of WAL in segments of {human_size(segment)}")
    if service_of(asked):
        raise NotApplicableError("the segments of a managed service have the size that it chose")
    larger = min(1024**3, 1 << (int(rate * 10) - 1).bit_length())
    return Finding(
        "note",
        f"{human_size(rate)}/s of WAL on average, segments of {human_size(segment)}",
        f"{rate / segment:.1f} segments/s are switched and synced, and archive_command starts a process for each",
        _lines(asked, larger),
        "restart (recreate standbys and archives)",
        "SHOW wal_segment_size;",
    )


def _lines(asked: RuleFacts, segment: int) -> tuple[Line, ...]:
    """The lines for the change. A server whose min_wal_size or max_wal_size is less than two segments does not start
    (xlog.c, ReadControlFile)."""
    least = 2 * segment
    sizes = {name: asked.whole_or_none(f"setting.{name}") for name in ("min_wal_size", "max_wal_size")}
    return (
        *(alter(name, format_size(least)) for name, size in sizes.items() if size is None or size < least),
        "pg_ctl stop -m fast -D DATA_DIRECTORY",
        f"pg_resetwal --wal-segsize={segment // 1024**2} DATA_DIRECTORY   # removes all WAL: archive it first",
        "# then a base backup, an empty archive, new standbys and replication slots",
    )


RULE = DoctorRule(
    "wal-segment",
    "Are WAL segments large enough for the rate of WAL?",
    "more than one segment a second is filled on average, over an hour or more",
    "PostgreSQL's manual, initdb --wal-segsize and pg_resetwal; src/backend/access/transam/xlog.c (min_wal_size of two "
    "segments)",
    _judge,
    ("WAL segment",),
)
