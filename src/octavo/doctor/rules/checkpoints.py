"""Checkpoints that come because max_wal_size is reached, not because their time has come."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import RELOAD, alter
from octavo.units import format_size, human_duration

_FEW = 20
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
    # Requested ones are also those of backups and by hand: only where checkpoints come too often it is max_wal_size.
    if requested < _FEW or requested <= timed or every >= timeout * 0.8:
        return Ok(f"{seen}, one in {human_duration(every)}")
    size = asked.whole("setting.max_wal_size")
    larger = int(size * max(2.0, timeout / every) * 1.2) // _MB * _MB
    return Finding(
        "warning",
        f"{seen}: one in {human_duration(every)}, where checkpoint_timeout is {human_duration(timeout)}",
        f"each checkpoint begins a new round of full-page images: {timeout / every:.1f} times as many rounds as "
        f"checkpoint_timeout would have; max_wal_size = {format_size(size)} is filled each time",
        (alter("max_wal_size", format_size(larger)), RELOAD),
        "reload",
        "SELECT * FROM pg_stat_checkpointer;   -- before 17: pg_stat_bgwriter",
    )


RULE = DoctorRule(
    "checkpoints",
    "Are checkpoints triggered by time?",
    "20 checkpoints or more, and more than half, were requested, and they are more frequent than checkpoint_timeout",
    "PostgreSQL's manual, WAL Configuration (max_wal_size)",
    _judge,
)
