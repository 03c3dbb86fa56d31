"""A data block that is a part of the device's physical sector."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.units import format_size, human_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    sector, block = asked.whole("host.device.physical_sector_bytes"), asked.whole("setting.block_size")
    if block >= sector:
        return Ok(f"data blocks of {human_size(block)} are whole sectors of {human_size(sector)}")
    filesystem = asked.whole_or_none("host.fs.block_bytes") or 0
    who = "the kernel, if it is not cached," if filesystem >= sector else "the device"
    return Finding(
        "note",
        f"data blocks of {human_size(block)} are parts of physical sectors of {human_size(sector)}",
        f"for a write of one block {who} reads {human_size(sector)} first and writes all of it: {sector // block} "
        "times "
        "the bytes",
        (f"octavo build --data-block {format_size(min(sector, 32768))}",),
        "dump and restore",
        "SHOW block_size;",
    )


RULE = DoctorRule(
    "physical-sector",
    "Is a data block at least as large as the device's sector?",
    "the data block is smaller than the physical sector",
    "kernel Documentation/ABI/stable/sysfs-block (physical_block_size)",
    _judge,
    ("device physical sector",),
    volumes=("tables",),
)
