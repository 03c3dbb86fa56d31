"""full_page_writes = off on storage that may tear a block."""

from octavo.doctor.amounts import RELOAD, alter
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import format_size

_COPY_ON_WRITE = ("zfs", "btrfs", "bcachefs")


def _judge(asked: RuleFacts) -> Ok | Finding:
    block = asked.whole("setting.block_size")
    if asked.flag("setting.full_page_writes"):
        return Ok("full_page_writes = on")
    kind = asked.text_or_none("host.fs.type")
    if kind in _COPY_ON_WRITE:
        return Ok(f"full_page_writes = off on {kind}, which does not write in place")
    sector = asked.whole("host.device.physical_sector_bytes")
    atomic = asked.whole_or_none("host.device.atomic_write_bytes") or 0
    if block <= max(sector, atomic):
        return Ok(f"full_page_writes = off; the device writes {format_size(max(sector, atomic))} at once")
    return Finding(
        "error",
        f"full_page_writes = off, data blocks of {format_size(block)}, sectors of {format_size(sector)}",
        f"a power cut in the middle of a write leaves a block of {block // sector} sectors of two ages, which recovery "
        "cannot repair: data is lost",
        (alter("full_page_writes", "on"), RELOAD),
        "reload",
        "SHOW full_page_writes;",
    )


RULE = DoctorRule(
    "full-page-writes",
    "Can a power cut tear a data block for good?",
    "full_page_writes is off, the filesystem writes in place, and the device does not write a block at once",
    "PostgreSQL's manual, full_page_writes and Reliability; kernel sysfs-block (atomic_write_unit_max_bytes)",
    _judge,
    ("data block", "device physical sector"),
)
