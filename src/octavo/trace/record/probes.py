"""The probes of PostgreSQL's packages, and the bpftrace program that prints them."""

import os
import re
import shutil
from pathlib import Path

from octavo.errors import HostError
from octavo.host.children import PLAIN_PATH

# Of a probe and what bpftrace does with it, as measured at 0.35 to 0.5 on one machine: what is shown before it starts.
MICROSECONDS_AN_EVENT = 0.45
# Pages of a processor's buffer between the kernel and bpftrace: 8 MB. What does not fit is lost, and counted.
BUFFER_PAGES = 2048
_PLAIN = re.compile(r"[\w./+-]+", re.ASCII)
_BTF = Path("/sys/kernel/btf/vmlinux")
# Where a block is new, only `done` knows its number before 16; from 16 on `done` tells of misses only, and a probe of
# its own of new blocks.
_OLD = ("buffer__read__done", "arg0, arg1, arg2, arg3, arg4, (int32)arg5, arg6")
_NEW = ("buffer__read__start", "arg0, arg1, arg2, arg3, arg4, (int32)arg5, 0")
_EXTEND = ("buffer__extend__done", "arg0, arg6, arg1, arg2, arg3, (int32)arg4, arg5")


def require_bpftrace() -> None:
    """Raises HostError where probes cannot be used: no root, or no bpftrace."""
    if os.geteuid() != 0:
        raise HostError("recording needs root, to attach probes; run it with sudo")
    if shutil.which("bpftrace", path=PLAIN_PATH) is None:
        raise HostError("recording needs bpftrace; apt-get install bpftrace")


def executable(postmaster: int, proc: Path = Path("/proc")) -> Path:
    """The server's program, as a path of this host. Raises HostError when it was replaced or has no probes."""
    link = proc / str(postmaster) / "exe"
    try:
        named = link.readlink()
        path = next(
            one
            for one in (named, proc / str(postmaster) / "root" / named.relative_to("/"))
            if one.exists() and one.samefile(link)
        )
    except (OSError, StopIteration):
        raise HostError(
            "the server's program cannot be found: it was replaced since the server started; restart the server"
        ) from None
    if not _PLAIN.fullmatch(str(path)):  # it becomes a part of the program that root runs
        raise HostError("the server's path has characters other than letters, digits and ./+-_; install it elsewhere")
    if _OLD[0].encode() not in path.read_bytes():
        raise HostError(
            f"{path} has no probes: it was built without --enable-dtrace; the packages of Debian and of PGDG have them"
        )
    return path


def program(version: int, path: Path, postmaster: int, seconds: float) -> str:
    """The text for bpftrace: a line an access of this server, for so long.

    >>> print(program(150018, Path("/p"), 7, 2.0).splitlines()[0])
    usdt:/p:postgresql:buffer__read__done / ((struct task_struct *)curtask)->real_parent->tgid == 7 /
    """
    only = f" / ((struct task_struct *)curtask)->real_parent->tgid == {postmaster} /" if _BTF.exists() else ""
    lines: list[str] = []
    for name, arguments in (_OLD,) if version < 160000 else (_NEW, _EXTEND):
        lines.append(f"usdt:{path}:postgresql:{name}{only}")
        lines.append('{ printf("%llu %d %d %u %u %u %u %d %d\\n", nsecs, pid, ' + arguments + "); }")
    lines.append(f"interval:ms:{max(1, round(seconds * 1000))} {{ exit(); }}")
    return "\n".join(lines)
