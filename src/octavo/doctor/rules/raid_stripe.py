"""A software RAID: whether the filesystem knows its stripe, and what a smaller write costs on one with parity."""

import re
import shlex

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import RuleFacts, UnknownError
from octavo.units import human_size

_SECTOR = 512  # the unit of xfs' mount options
# The requests for a write of less than a stripe: it reads the old block and parity, and writes the new ones.
_PARITY = {"raid4": 4, "raid5": 4, "raid6": 6}
_FEWEST = 100.0


def _judge(asked: RuleFacts) -> Ok | Finding:
    name, level = asked.text("host.raid.name"), asked.text("host.raid.level")
    stripe, chunk = asked.whole("host.raid.stripe_bytes"), asked.whole("host.raid.chunk_bytes")
    if stripe <= chunk or not chunk:
        return Ok(f"{name} ({level}) has no stripes")
    found = _geometry(asked, name, stripe, chunk) or _parity(asked, name, level, stripe)
    if found is not None:
        return found
    kind = asked.text("host.fs.type")
    if kind != "xfs":
        # ext4 shows it as a mount option only if it differs from the superblock.
        raise UnknownError(f"{kind} does not show its stripe in the mount options: tune2fs -l, RAID stripe width")
    return Ok(f"xfs knows the stripe of {name} ({level}, {human_size(stripe)})")


def _geometry(asked: RuleFacts, name: str, stripe: int, chunk: int) -> Finding | None:
    options, mount = asked.text("host.fs.options"), shlex.quote(asked.text_or_none("host.fs.mount") or "MOUNT")
    if asked.text("host.fs.type") != "xfs":
        return None
    unit, width = (int(found[1]) * _SECTOR if (found := re.search(rf"\b{word}=(\d{{1,9}})\b", options)) else 0
                   for word in ("sunit", "swidth"))  # fmt: skip
    # Any whole number of stripes is aligned, and so is a stripe unit of whole chunks.
    if width and width % stripe == 0 and unit % chunk == 0:
        return None
    has = f"sunit {human_size(unit)}, swidth {human_size(width)}" if width else "no sunit and swidth"
    fix, takes = _realign(mount, stripe, chunk, unit)
    return Finding(
        "note",
        f"{name} has stripes of {human_size(stripe)} in chunks of {human_size(chunk)}, and xfs has {has}",
        f"allocations are not aligned to stripes: a write of {human_size(stripe)} covers parts of two",
        fix,
        takes,
        f"xfs_info {mount}",
    )


def _realign(mount: str, stripe: int, chunk: int, unit: int) -> tuple[tuple[str, ...], str]:
    """The remedy, mount options where xfs accepts them, else a new filesystem; and what puts it into effect.

    A filesystem made without sunit cannot be mounted with it, and a sunit can only be multiplied by a power of two
    (xfs_check_new_dalign in the kernel's fs/xfs/xfs_mount.c; xfs(5)).
    """
    times = max(unit, chunk) // unit if unit else 0
    sunit = times * unit
    if not times or sunit % chunk or stripe % sunit or times & (times - 1):
        return (
            (
                "# an xfs made for other stripes, or for none, cannot be mounted for these; on another device:",
                f"mkfs.xfs -d su={chunk},sw={stripe // chunk} DEVICE   # erases DEVICE; copy the files there",
            ),
            "a new filesystem, and the files copied to it",
        )
    options = f"sunit={sunit // _SECTOR},swidth={stripe // _SECTOR}"
    if mount == "/":
        return (
            (
                "# on the kernel's command line; on Debian in /etc/default/grub, then update-grub:",
                f"grubby --update-kernel=ALL --args=rootflags={options}",
            ),
            "reboot; for files written from then on",
        )
    return (
        (
            f"# in /etc/fstab, to the options of {mount}: {options}",
            f"pg_ctl stop && umount {mount} && mount -o {options} {mount} && pg_ctl start",
        ),
        "restart; for files written from then on",
    )


def _parity(asked: RuleFacts, name: str, level: str, stripe: int) -> Finding | None:
    requests = _PARITY.get(level)
    writes = asked.number_or_none("live.device.writes_per_second") or 0.0
    written = asked.number_or_none("live.device.written_bytes_per_second") or 0.0
    if requests is None or writes < _FEWEST or written / writes >= stripe:
        return None
    return Finding(
        "note",
        f"{name} is {level} with stripes of {human_size(stripe)}, and gets {writes:,.0f} writes/s of "
        f"{human_size(round(written / writes / 1024) * 1024)} on average",
        f"each is less than a stripe and makes {requests} requests to the disks (old block and parity read, new ones "
        f"written): {requests * writes:,.0f} a second, where RAID 10 makes {2 * writes:,.0f}",
        ("# data and WAL on RAID 10, of other disks: this erases them",
         "mdadm --create /dev/mdX --level=10 --raid-devices=4 DISKS"),
        "a new filesystem, and the files copied to it",
        f"cat /sys/block/{name}/md/level; iostat -x 10   # w/s of {name} and of its disks",
    )  # fmt: skip


RULE = DoctorRule(
    "raid-stripe",
    "Is the filesystem aligned to the RAID's stripes, and what does a block write cost on it?",
    "on a Linux software RAID with stripes, an xfs is mounted without sunit and swidth or with other values than the "
    "RAID's; or a RAID with parity gets 100 writes/s or more that are smaller than a stripe",
    "xfs(5), mount options sunit and swidth, and kernel fs/xfs/xfs_mount.c (which changes it accepts); mkfs.xfs sets "
    "them where the device reports its stripe; md(4), RAID4, RAID5 and RAID6; kernel Documentation/admin-guide/md.rst",
    _judge,
    ("RAID stripe",),
    volumes=("tables", "WAL"),
)
