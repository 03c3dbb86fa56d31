"""A software RAID whose stripe the filesystem does not know."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.units import format_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    name = asked.text("host.device.name")
    stripe, chunk = asked.whole("host.device.optimal_io_bytes"), asked.whole("host.device.minimum_io_bytes")
    if not name.startswith("md") or stripe <= chunk:
        raise NotApplicableError(f"{name} is no software RAID with stripes")
    kind, options = asked.text("host.fs.type"), asked.text("host.fs.options")
    if kind != "xfs":
        raise NotApplicableError(f"{kind} does not say in its mount options what stripe it has")
    if "swidth=" in options:
        return Ok(f"xfs knows the stripe of {name} ({format_size(stripe)})")
    return Finding(
        "note",
        f"{name} has stripes of {format_size(stripe)} in chunks of {format_size(chunk)}, and xfs has no "
        "sunit and swidth",
        f"allocations are not aligned to stripes: a write of {format_size(stripe)} may touch two of them",
        (f"mount -o remount,sunit={chunk // 512},swidth={stripe // 512} MOUNT", "# and the same options in /etc/fstab"),
        "now",
        "xfs_info MOUNT",
    )


RULE = DoctorRule(
    "raid-stripe",
    "Does the filesystem know the stripe of its RAID?",
    "an xfs on a Linux software RAID with stripes is mounted without sunit and swidth",
    "xfs(5), mount options sunit and swidth; mkfs.xfs sets them where the device says its stripe",
    _judge,
    ("RAID stripe",),
)
