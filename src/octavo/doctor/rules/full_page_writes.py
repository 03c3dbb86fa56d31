"""full_page_writes = off on storage that may tear a block.

A device that can write a block atomically (atomic_write_unit_max_bytes) does so only on request: by direct I/O with
RWF_ATOMIC, Linux 6.11 and later, which PostgreSQL up to 18 does not use. Writeback from the page cache may be torn
between any two sectors, also on such a device.

A record of ZFS is replaced as a whole. Other filesystems with copy on write do not promise that of more than one of
their blocks: btrfs may divide a write into extents of 4 kB where free space is scattered (cow_file_range), and updates
the file for each extent when that is written, which may be in different transactions (btrfs_finish_ordered_io).
"""

from octavo.doctor.amounts import is_standby
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts
from octavo.doctor.lines import RELOAD, Sql, alter
from octavo.units import human_size

_COPY_ON_WRITE = ("zfs", "btrfs", "bcachefs")


def _judge(asked: RuleFacts) -> Ok | Finding:
    block = asked.whole("setting.block_size")
    atomic = asked.whole_or_none("host.device.atomic_write_bytes") or 0
    if asked.flag("setting.full_page_writes"):
        could = (
            f"; the device could write {human_size(atomic)} atomically, if PostgreSQL requested it"
            if atomic >= block
            else ""
        )
        return Ok(f"full_page_writes = on{could}")
    kind, options = asked.text_or_none("host.fs.type"), asked.text_or_none("host.fs.options") or ""
    in_place = kind not in _COPY_ON_WRITE or "nodatacow" in options.split(",")
    record = asked.whole_or_none("host.fs.block_bytes") if kind == "zfs" else None
    if kind == "zfs" and (record is None or block <= record):
        return Ok("full_page_writes = off on zfs, which does not write in place")
    # ZFS may put the records of one block into two transaction groups. The device below btrfs is unknown.
    own = asked.whole("host.fs.block_bytes") if kind in _COPY_ON_WRITE else None
    sector = own if own is not None else asked.whole("host.device.physical_sector_bytes")
    if block <= sector:
        return Ok(f"full_page_writes = off; a block is in one sector of {human_size(sector)}, if sectors are atomic")
    unasked = (
        f"; the device can write {human_size(atomic)} atomically on request (RWF_ATOMIC), which PostgreSQL does not use"
        if atomic >= block
        else ""
    )
    parts = "records" if kind == "zfs" else "filesystem blocks" if own is not None else "sectors"
    # On a standby, full-page images come from the primary. Elsewhere than in place a block is mostly in one extent.
    standby = is_standby(asked)
    seldom = not in_place and kind != "zfs"
    return Finding(
        "warning" if standby or seldom else "error",
        f"full_page_writes = off, data blocks of {human_size(block)} in {parts} of {human_size(sector)}{unasked}",
        ("once this standby is promoted, " if standby else "")
        + f"a power failure during a write can leave some of a block's {block // sector} {parts} old and others "
        f"new{', if they are in several extents' if seldom else ''}, which recovery cannot repair: data is lost",
        (
            alter("full_page_writes", "on"),
            RELOAD,
            Sql("CHECKPOINT;   -- blocks changed since the last one have no image"),
        ),
        "reload",
        "SHOW full_page_writes;",
    )


RULE = DoctorRule(
    "full-page-writes",
    "Can a power failure leave a torn data block that recovery cannot repair?",
    "full_page_writes is off, and a data block is larger than a sector on a filesystem that writes in place (as btrfs "
    "with nodatacow), larger than a record on ZFS, or larger than a filesystem block on btrfs and bcachefs (a warning)",
    "PostgreSQL's manual, full_page_writes and Reliability (of filesystems it names ZFS only); kernel sysfs-block "
    "(physical_block_size, atomic_write_unit_max_bytes), filesystems/ext4/atomic_writes.rst (with direct I/O only) and "
    "fs/btrfs/inode.c (cow_file_range)",
    _judge,
    ("data block", "device physical sector", "atomic write unit"),
    volumes=("tables",),
)
