"""Block sizes other than PostgreSQL's defaults, which tools around the server may get wrong."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import format_size

_DEFAULT = 8192


def _judge(asked: RuleFacts) -> Ok | Finding:
    data, wal = asked.whole("setting.block_size"), asked.whole("setting.wal_block_size")
    seen = f"data blocks of {format_size(data)}, WAL blocks of {format_size(wal)}"
    if data == wal == _DEFAULT:
        return Ok(seen)
    return Finding(
        "note",
        seen,
        "another build's pg_waldump, pg_upgrade, pg_rewind or standby refuses this data directory; pgBackRest reads "
        f"blocks of 8 kB only; defaults that count blocks are {data / _DEFAULT:g} times their usual bytes "
        "(effective_cache_size, wal_buffers, temp_buffers, flush_after)",
        ("# backups with this build's own pg_basebackup; standbys and tools of the same build",
         "octavo build --data-block " + format_size(data) + " --check-operations"),
        "now",
        "pg_controldata DATA_DIRECTORY | grep 'block size'",
    )  # fmt: skip


RULE = DoctorRule(
    "block-sizes",
    "Are the block sizes those that tools expect?",
    "the data or the WAL block is not 8 kB",
    "what PostgreSQL's own tools do at each block size is in docs/builds.md; pgBackRest's user guide (page size 8 kB)",
    _judge,
    ("data block",),
)
