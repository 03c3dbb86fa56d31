"""Filesystems that fill up or turn read-only under Octavo, and a server that the OOM killer takes."""

import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from octavo.host.cgroup import memory_controller

from .fingerprint import Ours, take
from .victim import Row, Trial, check_ended, octavo, put_back, stored

_SHARED = ("builds", "sources", "ccache")
_MB = 1024**2
_PLAN = """
name = "faults"
question = "What does a full disk cost?"
workload = "{workload}"
rounds = {rounds}
loads = 1
stopping = "fixed"
control = false
baseline = {{ {baseline} }}

[factors]
{factors}
clients = 1
duration = "1s"
wal_segment = "1MB"
recycled_wal = "2MB"
shared_buffers = "16MB"

[validity]
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
shortest_duration = "1%"
fewest_transactions = 1
"""
_SIMPLE = _PLAN.format(
    workload="pgbench", rounds=4, baseline='data_block = "8kB"', factors='mode = "read-write"\nscale = 1'
)


@contextmanager
def tmpfs(place: Path, megabytes: int) -> Generator[Path, None, None]:
    """A small filesystem in memory."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "octavo", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
        place.rmdir()


@contextmanager
def loop(place: Path, image: Path, megabytes: int) -> Generator[str, None, None]:
    """A filesystem on a loop device, mounted there. Gives the device."""
    with image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, megabytes * _MB)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    device = subprocess.run(
        ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    place.mkdir()
    try:
        subprocess.run(["mount", "-o", "errors=remount-ro", device, place], check=True)
        place.chmod(0o755)
        try:
            yield device
        finally:
            subprocess.run(["umount", "--lazy", place], check=False)
    finally:
        place.rmdir()
        subprocess.run(["losetup", "--detach", device], check=True)
        image.unlink()


def _share(home: Path, with_home: Path) -> None:
    """The builds of one state directory for another."""
    for name in _SHARED:
        with suppress(FileExistsError):
            (with_home / name).symlink_to((home / name).resolve())


def _until_it_fails(row: Row, home: Path, fail: Callable[[], None]) -> None:
    """A run of which, after its first trial, a disk fails: it ends in one line, and keeps what it reported."""
    plan = home.parent / f"{home.name}.toml"
    plan.write_text(_SIMPLE)
    failed: list[str] = []

    def watch(line: str, process: subprocess.Popen[str]) -> None:
        if ": tps " in line and process.poll() is None:
            fail()
            failed.append(line)

    row.kills += 1
    ended = octavo(home, "run", plan, "--seed", "3", on_line=watch)
    if not failed:
        row.problems.append(f"no trial came about: {ended.last}")
    check_ended(row, ended, allowed=(1, 3, 4))
    row.reported = set(ended.trials)


def _resumes(row: Row, home: Path) -> None:
    row.lost += len(row.reported - stored(home))
    row.to_resume += 1
    ended = octavo(home, "run", "--resume", "last")
    row.resumed += ended.code == 0
    if ended.code != 0:
        row.problems.append(f"resuming ended with {ended.code}: {ended.last}")


def _settle(row: Row, ours: Ours, home: Path, before: dict[str, str]) -> None:
    """As after a kill, which was counted before."""
    put_back(row, ours, home, before)
    row.kills -= 1


def full_home(ours: Ours, home: Path) -> Row:
    """The state directory's filesystem is full after the first trial."""
    row = Row("OCTAVO_HOME full")
    with tmpfs(ours.place / "full", 1024) as small:
        _share(home, small)
        before = take(ours)
        ballast = small / "ballast"

        def fill() -> None:
            with ballast.open("ab", buffering=0) as file, suppress(OSError):
                while file.write(bytes(_MB)):
                    pass

        _until_it_fails(row, small, fill)
        ballast.unlink(missing_ok=True)
        _settle(row, ours, small, before)
        _resumes(row, small)
    return row


def full_runtime_directory(ours: Ours, home: Path) -> Row:
    """No room for a socket's directory: /run is full, in a mount namespace of the command's own."""
    row = Row("runtime directory full", kills=1)
    before = take(ours)
    plan = ours.place / "runtime.toml"
    plan.write_text(_SIMPLE)
    script = 'mount --make-rprivate / && mount -t tmpfs -o size=4k,nr_inodes=2 none /run && exec "$@"'
    ended = octavo(home, "run", plan, "--rounds", "1", before=["unshare", "--mount", "sh", "-c", script, "sh"])
    check_ended(row, ended, allowed=(1, 3, 4))
    _settle(row, ours, home, before)
    row.to_resume += 1
    row.resumed += octavo(home, "run", "--resume", "last").code in (0, 2)  # or it had not become a run
    return row


def full_report_target(ours: Ours, home: Path) -> Row:
    """No room for a page: what was there before stays, and the next one is whole."""
    row = Row("report's target full", kills=1)
    before = take(ours)
    with tmpfs(ours.place / "target", 1) as small:
        page = small / "report.html"
        (small / "ballast").write_bytes(bytes(_MB - 64 * 1024))
        ended = octavo(home, "report", "last", "--html", page)
        check_ended(row, ended, allowed=(1, 3))
        row.left += [f"file {path}" for path in small.iterdir() if path.name != "ballast"]
        (small / "ballast").unlink()
        row.to_resume += 1
        with tmpfs(ours.place / "roomy", 64) as roomy:
            row.resumed += octavo(home, "report", "last", "--html", roomy / "report.html").code == 0
    _settle(row, ours, home, before)
    return row


def read_only_store(ours: Ours, home: Path) -> Row:
    """The device of the state directory takes no more writes after the first trial."""
    row = Row("store's disk read-only")
    before_all = take(ours)
    with loop(ours.place / "readonly", ours.place / "readonly.image", 1024) as device:
        small = ours.place / "readonly"
        _share(home, small)
        before = take(ours)
        _until_it_fails(row, small, lambda: _turn_read_only(device))
        ours.learn(small)
        # As an administrator does: stop what uses it, check, mount again.
        subprocess.run(["umount", "--lazy", small], check=True)
        subprocess.run(["fsck.ext4", "-p", "-f", device], check=False, capture_output=True)
        subprocess.run(["mount", "-o", "errors=remount-ro", device, small], check=True)
        _settle(row, ours, small, before)
        _resumes(row, small)
    _settle(row, ours, home, before_all)
    row.at_once -= 1
    return row


def _turn_read_only(device: str) -> None:
    """As after an error of the disk (ext4(5), errors=remount-ro)."""
    Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")


def killed_for_memory(ours: Ours, home: Path) -> Row | None:
    """A statement that needs more than the server's limit: its trial fails, the others stay. None without limits."""
    if memory_controller() is None:
        return None
    row = Row("server OOM-killed", kills=1)
    place = ours.place / "scripts"
    place.mkdir()
    (place / "empty.sql").write_text("CREATE TABLE nothing (a int);\n")
    (place / "small.sql").write_text("SELECT length(repeat('x', 1000));\n")
    (place / "large.sql").write_text("SELECT length(repeat('x', 900000000));\n")
    plan = place / "plan.toml"
    plan.write_text(
        _PLAN.format(
            workload="custom", rounds=2, baseline='script = "small.sql"',
            factors='script = ["small.sql", "large.sql"]\narchive = "empty.sql"\nmemory = "256MB"',
        )
    )  # fmt: skip
    before = take(ours)
    ended = octavo(home, "run", plan, "--seed", "3")
    check_ended(row, ended, allowed=(0, 4))
    reported: set[Trial] = {trial for trial in ended.trials if "small.sql" in trial[1]}
    row.lost += len(reported - stored(home))
    if not reported:
        row.problems.append(f"no trial came about: {ended.last}")
    _settle(row, ours, home, before)
    row.to_resume, row.resumed = 1, int(octavo(home, "run", "--resume", "last").code in (0, 2, 4))
    return row
