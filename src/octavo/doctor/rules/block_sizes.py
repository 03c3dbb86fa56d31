"""Block sizes other than PostgreSQL's defaults, which tools around the server may get wrong."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import format_size, human_size

_DEFAULT = 8192


def _judge(asked: RuleFacts) -> Ok | Finding:
    data, wal = asked.whole("setting.block_size"), asked.whole("setting.wal_block_size")
    seen = f"data blocks of {human_size(data)}, WAL blocks of {human_size(wal)}"
    if data == wal == _DEFAULT:
        return Ok(seen)
    return Finding(
        "note",
        seen,
        "another build's pg_waldump, pg_upgrade, pg_rewind or standby refuses this data directory; pg_probackup "
        "and pgBackRest before its pull request 2197 (2023) support blocks of 8 kB only" + _defaults(data),
        ("# backups with this build's own pg_basebackup; standbys and tools of the same build",
         "octavo build --data-block " + format_size(data) + " --check-operations"),
        "now",
        "pg_controldata DATA_DIRECTORY | grep 'block size'",
    )  # fmt: skip


def _defaults(data: int) -> str:
    if data == _DEFAULT:
        return ""
    return (
        f"; defaults counted in blocks are {data / _DEFAULT:g} times their usual size (effective_cache_size, "
        "temp_buffers, "
        "checkpoint_flush_after and others)"
    )


RULE = DoctorRule(
    "block-sizes",
    "Do tools support these block sizes?",
    "the data or the WAL block is not 8 kB",
    "what PostgreSQL's own tools do at each block size is in docs/switching.md; pgbackrest/pgbackrest 1820 and pull "
    "request 2197, "
    "postgrespro/pg_probackup 491",
    _judge,
    ("data block",),
)
