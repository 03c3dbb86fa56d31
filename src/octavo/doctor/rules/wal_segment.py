"""WAL segments that are filled faster than one a second."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.units import human_size

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
    larger = min(1024**3, 1 << (int(rate * 10) - 1).bit_length())
    return Finding(
        "note",
        f"{human_size(rate)}/s of WAL on average, segments of {human_size(segment)}",
        f"{rate / segment:.1f} segments/s are switched, synced and archived, each by a run of archive_command",
        ("pg_ctl stop", f"pg_resetwal --wal-segsize={larger // 1024**2} DATA_DIRECTORY"),
        "restart (recreate standbys and archives)",
        "SHOW wal_segment_size;",
    )


RULE = DoctorRule(
    "wal-segment",
    "Are WAL segments large enough for the rate of WAL?",
    "more than one segment a second is filled on average, over an hour or more",
    "PostgreSQL's manual, initdb --wal-segsize and pg_resetwal",
    _judge,
    ("WAL segment",),
)
