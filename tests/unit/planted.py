"""A planted /proc and /sys, for the code that reads them."""

from collections.abc import Mapping
from pathlib import Path

from octavo.instruments.target import Rows, Target

KERNEL_THREAD = 0x00200000


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """Writes the files below the root, and returns it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def process(
    pid: int, parent: int, name: str = "sh", *, ticks: int = 0, reaped: int = 0, start: int = 100, flags: int = 0
) -> dict[str, str]:
    """The stat file of a process; CPU in ticks, all of it user time."""
    fields = ["S", parent, pid, pid, 0, -1, flags, 0, 0, 0, 0, ticks, 0, reaped, 0, 20, 0, 1, 0, start, 0, 0]
    return {f"{pid}/stat": f"{pid} ({name}) {' '.join(map(str, fields))}\n"}


def storage(pid: int, *, read: int = 0, written: int = 0, cancelled: int = 0) -> dict[str, str]:
    """The io file of a process, in bytes."""
    return {
        f"{pid}/io": f"rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: {read}\nwrite_bytes: {written}\n"
        f"cancelled_write_bytes: {cancelled}\n"
    }


def machine(user: int = 0, system: int = 0, idle: int = 0, softirq: int = 0, steal: int = 0) -> dict[str, str]:
    """The CPU times of the machine, in ticks."""
    return {"stat": f"cpu  {user} 0 {system} {idle} 0 0 {softirq} {steal} 0 0\ncpu0 1 1 1 1\n"}


def target(proc: Path, postmaster: int | None = None) -> Target:
    """The target of instruments: the planted /proc, and a server that reports its cluster_name."""

    def query(name: str) -> Rows:
        assert name == "cluster_name"
        return [{"cluster_name": ""}]

    return Target(query, 180000, None, postmaster, None, "no directory", "no processes", proc)
