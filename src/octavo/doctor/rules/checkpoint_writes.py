"""A checkpoint that writes while reads wait for the same disk."""

from octavo.doctor.amounts import percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts, UnknownError
from octavo.doctor.lines import RELOAD, alter
from octavo.units import human_duration, human_size

_BUSY, _SHARE, _FEWEST = 0.90, 0.50, 50.0
_SPREAD = 0.9
_DAY = 24 * 60.0  # minutes, the maximum of checkpoint_timeout


def _judge(asked: RuleFacts) -> Ok | Finding:
    written, reads = (
        asked.number("live.server.checkpoint_bytes_per_second"),
        asked.number("live.server.reads_per_second"),
    )
    seen = f"{human_size(written)}/s by the checkpointer while {reads:,.0f} reads/s were requested"
    busy = asked.number("live.device.busy_share")
    served = asked.number("live.device.read_bytes_per_second") + asked.number("live.device.written_bytes_per_second")
    if reads < _FEWEST or busy < _BUSY or not served or written < _SHARE * served:
        return Ok(seen)
    if asked.is_spread:
        raise UnknownError("a disk is busy, but the server does not count the checkpointer's writes by volume")
    spread, timeout = asked.number("setting.checkpoint_completion_target"), asked.number("setting.checkpoint_timeout")
    lines = (
        (alter("checkpoint_completion_target", "0.9"), RELOAD)
        if spread < _SPREAD
        else (alter("checkpoint_timeout", f"{round(min(_DAY, max(15.0, timeout / 30)))}min"), RELOAD,
              "# recovery after a crash takes longer in proportion",
              "# and a max_wal_size that triggers none earlier: octavo doctor --explain checkpoints")
    )  # fmt: skip
    return Finding(
        "note",
        f"{seen}; the disk was busy {percent(busy)} of the time",
        f"{percent(min(1.0, written / served))} of the disk's {human_size(served)}/s are checkpoint writes, so scans "
        f"may be faster while no checkpoint runs; its writes are spread over {percent(spread)} of checkpoint_timeout "
        f"({human_duration(timeout)})",
        lines,
        "reload",
        "SELECT backend_type, writes FROM pg_stat_io WHERE backend_type = 'checkpointer';",
    )


RULE = DoctorRule(
    "checkpoint-writes",
    "Do reads wait for a checkpoint?",
    "while observed, the disk was busy 90 % of the time, at least half of its bytes were the checkpointer's, and there "
    "were 50 reads/s or more (16 and later)",
    "PostgreSQL reads each 8k block (a mailing-list thread, 2009): a scan is slow while a checkpoint runs; "
    "PostgreSQL's manual, "
    "WAL Configuration (checkpoint_completion_target)",
    _judge,
    volumes=("tables",),
)
