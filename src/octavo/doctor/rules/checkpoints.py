"""Checkpoints that are triggered by max_wal_size instead of checkpoint_timeout."""

from octavo.doctor.engine import DoctorRule, Finding, Ok, Severity
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import RELOAD, alter
from octavo.units import format_size, human_duration

_FEW = 20
_OFTEN, _IN_BURSTS = 0.8, 0.25  # of checkpoint_timeout
_PART = 0.1
_MB = 1024**2


def _judge(asked: RuleFacts) -> Ok | Finding:
    if asked.flag("server.in_recovery"):
        raise NotApplicableError("a standby makes restartpoints")
    timed, requested = asked.whole("server.checkpoints.timed"), asked.whole("server.checkpoints.requested")
    seconds = asked.number("server.checkpoints.seconds")
    seen = f"{timed:,} checkpoints by time, {requested:,} requested"
    if not timed + requested:
        return Ok(f"no checkpoint in the {human_duration(seconds)} since the statistics were reset")
    every, timeout = seconds / (timed + requested), asked.number("setting.checkpoint_timeout")
    size = asked.whole("setting.max_wal_size")
    # Requested checkpoints include those of backups, CREATE DATABASE and CHECKPOINT: only those count for which
    # there is enough WAL.
    most, written = requested, _written(asked, seconds)
    if written is not None:
        most = min(requested, int(written / _least(size, asked.whole_or_none("setting.wal_segment_size") or 0)))
        seen += f", {most:,} of them at most because of max_wal_size" if most < requested else ""
    if most < _FEW:
        return Ok(f"{seen}, one every {human_duration(every)}")
    apart = seconds / (timed + most)
    # A timed checkpoint comes checkpoint_timeout after the previous one, so all others happened in the remaining time.
    alone = (seconds - timed * timeout) / most
    if most > timed and apart < timeout * _OFTEN:
        severity: Severity = "warning"
        how = f"{seen}: one every {human_duration(every)}"
    elif most >= _PART * timed and 0 <= alone < timeout * _IN_BURSTS:
        severity, apart = "note", alone
        how = f"{seen}; the requested ones in bursts, one every {human_duration(alone)} or less"
    else:
        return Ok(f"{seen}, one every {human_duration(every)}")
    times = timeout / max(apart, 1.0)
    larger = int(size * max(2.0, times) * 1.2) // _MB * _MB
    return Finding(
        severity,
        f"{how}, where checkpoint_timeout is {human_duration(timeout)}",
        f"after each checkpoint full-page images start again: {times:.1f} times as often as with checkpoint_timeout "
        f"alone; max_wal_size = {format_size(size)} is filled each time",
        (
            "# pg_wal grows to that size, and recovery after a crash takes longer: df -h DATA_DIRECTORY/pg_wal",
            alter("max_wal_size", format_size(larger)),
            RELOAD,
        ),
        "reload",
        "SELECT * FROM pg_stat_checkpointer;   -- before 17: pg_stat_bgwriter",
    )


def _least(size: int, segment: int) -> float:
    """The WAL in bytes without which max_wal_size triggers no checkpoint: half of it, rounded down to segments, from
    the segment in which the previous one began (CalculateCheckpointSegments, XLogCheckpointNeeded)."""
    return max(segment, size / 2 - 2 * segment, 1.0)


def _written(asked: RuleFacts, seconds: float) -> float | None:
    """The WAL written in that time, in bytes; None if it is not counted (before 14)."""
    size, during = asked.whole_or_none("server.wal.bytes"), asked.number_or_none("server.wal.seconds")
    return size / during * seconds if size is not None and during else None


RULE = DoctorRule(
    "checkpoints",
    "Are checkpoints triggered by time?",
    "at least 20 checkpoints were requested, and the amount of WAL shows that max_wal_size is the reason (14 and "
    "later): more than half of all checkpoints, at intervals shorter than checkpoint_timeout; or 10 % of them, at "
    "intervals shorter than a quarter of checkpoint_timeout (a note)",
    "PostgreSQL's manual, WAL Configuration (max_wal_size); src/backend/access/transam/xlog.c "
    "(CalculateCheckpointSegments, XLogCheckpointNeeded)",
    _judge,
)
