"""The memory limit of a server: a cgroup of its own, version 1 or 2, that the server is born in.

The page cache is charged to the first toucher, so a server that is moved in later, or whose files
somebody else has read, is not limited (kernel Documentation/admin-guide/cgroup-v1/memory.rst).
"""

import contextlib
import os
import sys
import time
from pathlib import Path

from octavo.errors import HostError

_ROOT = Path("/sys/fs/cgroup")
_REMOVAL_SECONDS = 5.0


def memory_controller(root: Path = _ROOT) -> Path | None:
    """The directory below which we may make memory groups, or None when this host offers none."""
    version_1 = root / "memory"
    if (version_1 / "memory.limit_in_bytes").exists():
        return version_1 if os.access(version_1, os.W_OK) else None
    controllers = root / "cgroup.subtree_control"
    if controllers.exists() and "memory" in controllers.read_text().split() and os.access(root, os.W_OK):
        return root
    return None


def group_path(name: str, root: Path = _ROOT) -> Path:
    """Where the memory group of this name would be. Raises HostError when the host has no memory controller."""
    controller = memory_controller(root)
    if controller is None:
        raise HostError("memory: this host has no cgroup memory controller that can be used; leave the factor at none")
    return controller / f"octavo-{name}"


def create(path: Path, limit_bytes: int) -> None:
    """Makes the group with its limit, and keeps it from swapping. Raises HostError when that is refused."""
    try:
        path.mkdir()
        _limit_file(path).write_text(str(limit_bytes))
        for name in ("memory.swappiness", "memory.swap.max"):
            if (path / name).exists():
                (path / name).write_text("0")
    except OSError as error:
        raise HostError(
            f"memory: cannot make the group {path}: {error.strerror}; run as root or leave the factor at none"
        ) from error


def achieved_limit(path: Path) -> int:
    """The limit in bytes as the kernel holds it."""
    return int(_limit_file(path).read_text())


def remove(path: Path) -> bool:
    """Removes the group once its processes are gone; the kernel may need a moment. Whether it is gone."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while path.exists():
        with contextlib.suppress(OSError):
            (path / "memory.force_empty").write_text("0")
        with contextlib.suppress(OSError):
            path.rmdir()
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def entering(path: Path, uid: int, gid: int) -> list[str]:
    """The beginning of a command line that enters the group, gives up root, and becomes what follows.

    A small program of its own, because only a process that is still root may enter, and nothing that
    the server touches may be charged before it is inside.
    """
    return [
        sys.executable, "-I", "-S", "-c",
        "import os,sys\n"
        "group,uid,gid=sys.argv[1:4]\n"
        "open(group+'/cgroup.procs','w').write(str(os.getpid()))\n"
        "os.setgroups([]);os.setresgid(*[int(gid)]*3);os.setresuid(*[int(uid)]*3)\n"
        "os.execv(sys.argv[4],sys.argv[4:])",
        str(path), str(uid), str(gid),
    ]  # fmt: skip


def _limit_file(path: Path) -> Path:
    version_1 = path / "memory.limit_in_bytes"
    return version_1 if version_1.exists() else path / "memory.max"
