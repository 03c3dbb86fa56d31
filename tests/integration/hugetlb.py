"""Hugetlb groups of cgroup version 2, and processes in them, for tests as root."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from octavo.hugepages.pool import default_page

MB = 1024**2
_V2 = Path("/sys/fs/cgroup/unified") if Path("/sys/fs/cgroup/unified").is_dir() else Path("/sys/fs/cgroup")


@contextmanager
def hugetlb_group(limit: int) -> Generator[Path, None, None]:
    """A group that may use this many bytes of the default page size (charged when touched)."""
    control, group = _V2 / "cgroup.subtree_control", _V2 / f"octavo-test-huge-{os.getpid()}"
    on = "hugetlb" in control.read_text().split()
    if not on:
        control.write_text("+hugetlb")
    group.mkdir()
    try:
        (group / f"hugetlb.{default_page() // MB}MB.max").write_text(str(limit))
        yield group
    finally:
        group.rmdir()
        if not on:
            control.write_text("-hugetlb")


def offers_hugetlb() -> bool:
    controllers = _V2 / "cgroup.controllers"
    return controllers.exists() and "hugetlb" in controllers.read_text().split()


# Enters the group, drops root's rights if requested, and executes the following command.
_ENTER = """
import os, resource, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if sys.argv[2] != "0":
    os.setgroups([]); os.setresgid(*[int(sys.argv[3])] * 3); os.setresuid(*[int(sys.argv[2])] * 3)
os.execv(sys.argv[4], sys.argv[4:])
"""


def within(group: Path, uid: int, gid: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _ENTER, str(group), str(uid), str(gid), *map(str, arguments)],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
