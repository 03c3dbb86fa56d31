"""The probes of PostgreSQL's packages, and the bpftrace program that prints them."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import HostError
from octavo.home import changer_of_file
from octavo.host.children import PLAIN_PATH
from octavo.host.kernel_text import shown
from octavo.host.process_table import read_table
from octavo.postgres.builds.traced import MARK

# Processor time of a probe, its trap and the line that bpftrace prints, in microseconds: pgbench -S, which took 11 per
# access on two cores, became 58 % slower. This estimate is shown before a recording; slices measure the real cost.
MICROSECONDS_AN_EVENT = 15.0
# Pages of a processor's buffer between the kernel and bpftrace: 8 MB. Events that do not fit are lost, and counted.
BUFFER_PAGES = 2048
_PIECE = 1024**2
_MOST_PIECES = 1024  # no server program has a gigabyte
# The kernel's types, by which the program below finds a process's parent.
_BTF = Path("/sys/kernel/btf/vmlinux")
# bpftrace prints after time and pid: fork, block, tablespace, database, relation, backend, blocks that are new. It can
# read six of a probe's arguments on x86-64. Before 16 the seventh would tell that a block is new (it counts as read, as
# in those servers' own counters); since 16 it would give the first of the new blocks (they are taken to follow the last
# known one). `done` reports new blocks before 16; since 16 it does not fire for every access.
_OLD = ("buffer__read__done", "%d %u %u %u %u %d 0", "arg0, arg1, arg2, arg3, arg4, (int32)arg5")
_NEW = ("buffer__read__start", *_OLD[1:])
_EXTEND = ("buffer__extend__done", f"%d {2**32 - 1} %u %u %u %d %d", "arg0, arg1, arg2, arg3, (int32)arg4, arg5")


def require_bpftrace() -> None:
    """Raises HostError if probes cannot be used: without root, or without bpftrace."""
    if os.geteuid() != 0:
        raise HostError("recording needs root, to attach probes; run it with sudo")
    if shutil.which("bpftrace", path=PLAIN_PATH) is None:
        raise HostError(
            "recording needs bpftrace; apt-get install bpftrace, or record the server's counters alone (--counters)"
        )


def refuse_other_servers(postmaster: int, proc: Path = Path("/proc"), types: Path = _BTF) -> None:
    """Raises HostError if the probes would also report another server: one of the same program, on a kernel without
    types, where bpftrace cannot see which server a process belongs to."""
    if types.exists():
        return
    own = _file(postmaster, proc)
    for pid, process in read_table(proc).items():
        if postmaster not in (pid, process.parent) and own is not None and _file(pid, proc) == own:
            raise HostError(
                f"process {pid} is of another server of the same program, and this kernel has no types (BTF) to tell "
                "them apart; stop that server, or record the server's counters alone (--counters)"
            )


def _file(pid: int, proc: Path) -> tuple[int, int] | None:
    """Device and inode of a process's program, None if it has ended."""
    try:
        found = (proc / str(pid) / "exe").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_traced(postmaster: int, proc: Path = Path("/proc")) -> bool:
    """Whether the server's program is a tracing build. Raises HostError when it cannot be read."""
    try:
        return _contains(proc / str(postmaster) / "exe", MARK)
    except OSError as error:
        raise HostError(f"the server's program cannot be read: {error.strerror}; record as root") from error


@contextmanager
def executable(postmaster: int, proc: Path = Path("/proc")) -> Generator[Path, None, None]:
    """Yields a path of the server's program that always names this very file, whatever happens to its own path.

    bpftrace reads it as root. If the path led to another file by then, probes would be inserted into that one, so
    nobody but root may be able to change it. Raises HostError when others can, or when it has no probes.
    """
    link = proc / str(postmaster) / "exe"
    try:
        named = shown(str(link.readlink()))
        descriptor = os.open(link, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"the server's program cannot be read: {error.strerror}; record as root") from error
    try:
        if why := changer_of_file(os.fstat(descriptor), {0, os.geteuid()}):
            raise HostError(
                f"{named} {why}, and bpftrace would read it as root; run a server that root has installed or one of "
                "octavo build --traced, or record the server's counters alone (--counters)"
            )
        opened = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
        if not _contains(opened, _OLD[0].encode()):
            raise HostError(
                f"{named} has no probes: it was built without --enable-dtrace; the packages of Debian and PGDG have "
                "them, octavo build --traced makes servers that need none, and --counters works without page accesses"
            )
        # bpftrace may resolve a path to another name, but not one below /proc/PID/root.
        yield Path(f"/proc/{os.getpid()}/root{opened}")
    finally:
        os.close(descriptor)


def _contains(program: Path, name: bytes) -> bool:
    """Whether a program's file contains this text. It is searched piece by piece, up to a limit."""
    rest = b""
    with program.open("rb") as file:
        for _ in range(_MOST_PIECES):
            piece = file.read(_PIECE)
            if not piece:
                return False
            if name in rest + piece:
                return True
            rest = piece[-len(name) :]
    return False


def program(version: int, path: Path, postmaster: int, seconds: float) -> str:
    """The bpftrace program: it prints one line per access of this server, for so many seconds.

    >>> print(program(150018, Path("/p"), 7, 2.0).splitlines()[0])
    usdt:/p:postgresql:buffer__read__done / ((struct task_struct *)curtask)->real_parent->tgid == 7 /
    """
    only = f" / ((struct task_struct *)curtask)->real_parent->tgid == {postmaster} /" if _BTF.exists() else ""
    lines: list[str] = []
    for name, form, arguments in (_OLD,) if version < 160000 else (_NEW, _EXTEND):
        lines.append(f"usdt:{path}:postgresql:{name}{only}")
        lines.append(f'{{ printf("%llu %d {form}\\n", nsecs, pid, {arguments}); }}')
    lines.append(f"interval:ms:{max(1, round(seconds * 1000))} {{ exit(); }}")
    return "\n".join(lines)
