"""A WAL block that is smaller than the filesystem's."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.lines import RELOAD, alter
from octavo.units import format_size, human_size

_LARGEST = 65536
_USUAL = 4096  # the default of mkfs.xfs; every kernel can mount it


def _judge(asked: RuleFacts) -> Ok | Finding:
    # Facts of a report that names no volumes.
    if asked.volume is None and asked.has("host.fs.wal_elsewhere") and asked.flag("host.fs.wal_elsewhere"):
        raise NotApplicableError("pg_wal is a link or a mount: its filesystem is not examined")
    block, filesystem = asked.whole("setting.wal_block_size"), asked.whole("host.fs.block_bytes")
    if block >= filesystem:
        return Ok(f"WAL blocks of {human_size(block)}, filesystem blocks of {human_size(filesystem)}")
    seen = f"WAL blocks of {human_size(block)} are parts of filesystem blocks of {human_size(filesystem)}"
    read = f"a write of one block into a recycled segment that is not cached reads {human_size(filesystem)} first"
    times = f"{filesystem // block} times the bytes"
    if asked.text_or_none("host.fs.type") == "zfs":
        return _on_zfs(asked, seen, f"{read}: {times}")
    return Finding(
        "note",
        seen,
        f"{read}, and a commit of one block writes {human_size(filesystem)}: {times}",
        (
            (f"octavo build --wal-block {format_size(filesystem)}",)
            if filesystem <= _LARGEST
            else (
                "# no build of PostgreSQL has WAL blocks so large: pg_wal on another device, whose content is lost",
                f"mkfs.xfs -b size={min(block, _USUAL)} DEVICE",
            )
        ),
        "a new data directory (the WAL block is fixed at initdb)",
        "SHOW wal_block_size;",
    )


def _on_zfs(asked: RuleFacts, seen: str, cost: str) -> Ok | Finding:
    """A commit writes its own bytes to the intent log, and a record only once for all that changed in it within
    seconds. New segments have nothing to read."""
    if asked.has("setting.wal_recycle") and not asked.flag("setting.wal_recycle"):
        return Ok(f"{seen}; wal_recycle = off: no segment is written twice")
    lines = alter("wal_recycle", "off"), alter("wal_init_zero", "off"), RELOAD
    return Finding("note", seen, cost, lines, "reload", "SHOW wal_recycle;")


RULE = DoctorRule(
    "wal-block",
    "Is a WAL block at least as large as a filesystem block?",
    "the WAL block is smaller than the filesystem's block, on ZFS only where wal_recycle is on",
    "PostgreSQL src/backend/access/transam/xlog.c (XLogWrite); kernel fs/buffer.c and fs/iomap/buffered-io.c (a block "
    "of the filesystem that is written in part is read first); PostgreSQL's manual, wal_recycle and wal_init_zero; the "
    "preset oltp-blocks-wal measures it",
    _judge,
    ("WAL block", "filesystem block"),
    volumes=("WAL",),
)
