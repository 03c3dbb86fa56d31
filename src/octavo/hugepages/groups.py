"""The limit of hugetlb control groups: the smallest from a process's group up to the topmost visible one.

Sources: kernel Documentation/admin-guide/cgroup-v1/hugetlb.rst and cgroup-v2.rst ("HugeTLB"). There are two limits. The
one of reservations (`rsvd`, Linux 5.7) refuses mmap(2) with ENOMEM, which PostgreSQL sees. The other one takes effect
only when a page is touched: the process gets SIGBUS, which kills PostgreSQL (and initdb); a read into the page is
short.
"""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from octavo.host.kernel_text import lines
from octavo.host.mounts import mounts

_PROC = Path("/proc")
# Version 1 says "no limit" as the largest multiple of a page below 2^63.
NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """Bytes that a group and all in it may have of one page size, and have; `reservations` says which limit it is.

    `name` is the file of the limit in the group's directory.
    """

    group: Path
    name: str
    limit: int
    used: int
    reservations: bool

    def room(self, own: int) -> int:
        """The bytes that a server may have in the group if it has mapped `own` bytes, of which no more are used than
        the group uses."""
        return max(0, self.limit - self.used + min(own, self.used))


def group_limits(page: int, pid: int | None = None, proc: Path = _PROC) -> list[GroupLimit]:
    """Every limit on pages of this size that holds for a process (ourselves), the innermost group first."""
    return [
        limit for group in group_directories("hugetlb", pid, proc) for reservations in (False, True)
        if (limit := _limit(group, page, reservations)) is not None
    ]  # fmt: skip


def tightest(limits: list[GroupLimit], *, reservations: bool) -> GroupLimit | None:
    """The one of this kind that leaves the least room."""
    return min((one for one in limits if one.reservations is reservations), key=lambda one: one.room(0), default=None)


def counted(limits: list[GroupLimit], own: int, *, reservations: bool) -> int:
    """The most of a server's `own` bytes that these groups count: each contains the one before it, so all of them count
    what the innermost one does."""
    return min([own, *(one.used for one in limits if one.reservations is reservations)])


def size_name(page: int) -> str:
    """The page size as the files of a group have it.

    >>> size_name(2 * 1024**2), size_name(1024**3), size_name(64 * 1024)
    ('2MB', '1GB', '64KB')
    """
    for unit, name in ((1024**3, "GB"), (1024**2, "MB")):
        if page >= unit:
            return f"{page // unit}{name}"
    return f"{page // 1024}KB"


def _limit(group: Path, page: int, reservations: bool) -> GroupLimit | None:
    stem = f"hugetlb.{size_name(page)}{'.rsvd' if reservations else ''}"
    for limit_name, used_name in (("max", "current"), ("limit_in_bytes", "usage_in_bytes")):
        try:
            limit = (group / f"{stem}.{limit_name}").read_text().strip()
            used = int((group / f"{stem}.{used_name}").read_text())
        except OSError:
            continue
        if limit == "max" or int(limit) >= NO_LIMIT:
            return None
        return GroupLimit(group, f"{stem}.{limit_name}", int(limit), used, reservations)
    return None


def group_directories(controller: str, pid: int | None, proc: Path = _PROC) -> Generator[Path, None, None]:
    """The directories of a process's groups of this controller, from its own to the topmost that is mounted here.

    In a container the path may lead above the mount; only the mounted root is then visible.
    """
    try:
        groups = lines(proc / str(pid or "self") / "cgroup")
        table = mounts(proc / "self" / "mountinfo")
    except OSError:
        return
    for line in groups:
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or (controllers and controller not in controllers.split(",")):
            continue
        for mount in table:
            first = mount.kind == "cgroup" and controller in mount.options.split(",")
            if not (first if controllers else mount.kind == "cgroup2"):
                continue
            inside = _inside(path, mount.root)
            yield from (mount.target / part for part in (inside, *inside.parents))
            break


def _inside(path: str, root: str) -> Path:
    """The group's path below the mount, which shows the hierarchy from `root` on."""
    group = Path(path)
    if ".." in group.parts or not group.is_relative_to(root):
        return Path()
    return group.relative_to(root)
