"""The share of full-page images in the WAL."""

from octavo.doctor.amounts import percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import RELOAD, alter
from octavo.units import human_size

_SETTLED, _ENOUGH, _MUCH = 3600.0, 1024**3, 0.60
_WITH_ALGORITHMS = 150000
_DAY = 86400
_SMALLEST = 1024  # no build has smaller data blocks
_OTHERS = {"on": (), "lz4": ("# 'on' where this build has no lz4",)}


def _judge(asked: RuleFacts) -> Ok | Finding:
    if asked.flag("server.in_recovery"):
        raise NotApplicableError("a standby generates no WAL")
    images, total = asked.whole("server.wal.full_page_images"), asked.whole("server.wal.bytes")
    seconds, block = asked.number("server.wal.seconds"), asked.whole("setting.block_size")
    if seconds < _SETTLED or total < _ENOUGH:
        raise NotApplicableError("an hour of statistics and 1 GB of WAL are needed")
    compression = asked.text("setting.wal_compression")
    if compression != "off":
        return Ok(f"{images:,} full-page images, wal_compression = {compression}")
    share = min(1.0, images * block / total)
    seen = f"{images:,} full-page images in {human_size(total)} of WAL: up to {percent(share)}"
    if share < _MUCH:
        return Ok(seen)
    daily = share * total / seconds * _DAY
    method = "lz4" if asked.whole("server.version_number") >= _WITH_ALGORITHMS else "on"
    smaller = (
        f"; with blocks of {human_size(block // 2)} each would be half as large, a saving unless changed blocks are "
        "next to each other"
    )
    return Finding(
        "note",
        f"{seen}; wal_compression = off",
        f"up to {human_size(daily)} a day are images of {human_size(block)}{smaller if block > _SMALLEST else ''}",
        (
            alter("wal_compression", method),
            RELOAD,
            *_OTHERS[method],
            "# and fewer checkpoints: checkpoint_timeout, max_wal_size",
        ),
        "reload",
        "SELECT wal_fpi, wal_bytes FROM pg_stat_wal;",
    )


RULE = DoctorRule(
    "full-page-images",
    "How much of the WAL is full-page images?",
    "full-page images may be 60 % or more of the WAL of an hour or more, and wal_compression is off",
    "PostgreSQL's manual, full_page_writes, wal_compression and pg_stat_wal; the preset oltp-fpw measures it",
    _judge,
)
