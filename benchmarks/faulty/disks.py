"""Filesystems that fill up or become read-only while Octavo runs, and a server that the OOM killer kills."""

import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from octavo.host.cgroup import memory_controller
from octavo.host.loop_volume import cannot_make

from .fingerprint import Ours, take
from .victim import Row, Trial, check_ended, newest, octavo, put_back

_MB = 1024**2
# A command that meets a fault ends with one of these exit codes: the host cannot do it, or trials failed.
_FAILED = (1, 3, 4)
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
_TRIALS = 3
_SIMPLE = _PLAN.format(
    workload="pgbench", rounds=_TRIALS, baseline='data_block = "8kB"', factors='mode = "read-write"\nscale = 1'
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
    """A filesystem on a loop device, mounted at `place`. Yields the device."""
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
    """Shares the builds and sources of one state directory with another."""
    for link in home.iterdir():
        if link.is_symlink():
            (with_home / link.name).symlink_to(link.resolve())


def _fill(directory: Path) -> Path:
    """Fills the filesystem's free space with a file, and returns that file."""
    ballast = directory / "ballast"
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(_MB)):
            pass
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(512)):
            pass
    return ballast


def _until_it_fails(row: Row, ours: Ours, home: Path, fail: Callable[[], object]) -> set[Trial]:
    """A run one of whose disks fails after the first trial: it ends with a one-line error. Returns the trials that it
    reported."""
    plan = ours.place / f"{home.name}.toml"
    plan.write_text(_SIMPLE)
    failed: list[str] = []

    def watch(line: str, process: subprocess.Popen[str]) -> None:
        if ": tps " in line and not failed and process.poll() is None:
            fail()
            failed.append(line)

    row.kills += 1
    ended = octavo(ours, home, "run", plan, "--seed", "3", on_line=watch)
    if not failed:
        row.problems.append(f"no trial came about: {ended.last}")
    check_ended(row, ended, allowed=_FAILED)
    return ended.trials


def _resumes(row: Row, ours: Ours, home: Path, reported: set[Trial]) -> None:
    """Checks that the newest run has the trials that it reported, and can be resumed to its end."""
    before = newest(home)
    row.lost += len(reported - (before.finished if before else set()))
    row.to_resume += 1
    ended = octavo(ours, home, "run", "--resume", "last")
    now = newest(home)
    if ended.code == 0 and now is not None and len(now.finished) == _TRIALS:
        row.resumed += 1
    else:
        row.problems.append(f"resuming ended with {ended.code}: {now and now.others} {ended.last}")


def full_home(ours: Ours, home: Path) -> Row:
    """The state directory's filesystem is full after the first trial."""
    row = Row("state directory full during a run")
    with tmpfs(ours.place / "full", 1024) as small:
        _share(home, small)
        before = take(ours)
        reported = _until_it_fails(row, ours, small, partial(_fill, small))
        (small / "ballast").unlink(missing_ok=True)
        put_back(row, ours, small, before)
        _resumes(row, ours, small, reported)
    return row


def full_from_the_start(ours: Ours, home: Path) -> Row:
    """The state directory's filesystem has no free space at all: a run, a build, a report."""
    row = Row("state directory full from the start")
    plan = ours.place / "full-before.toml"
    plan.write_text(_SIMPLE)
    with tmpfs(ours.place / "full-before", 64) as small:
        _share(home, small)
        before = take(ours)
        ballast = _fill(small)
        for command in (("run", plan), ("build", "--data-block", "16kB"), ("report", "last")):
            row.kills += 1
            check_ended(row, octavo(ours, small, *command), allowed=(2, *_FAILED))
            put_back(row, ours, small, before)
        ballast.unlink()
        row.to_resume += 1
        # Partial results must not obstruct later commands.
        row.resumed += octavo(ours, small, "runs").code == 0
    return row


def full_runtime_directory(ours: Ours, home: Path) -> Row:
    """No space for a socket's directory: /run is full, in a mount namespace of the command's own."""
    row = Row("runtime directory full", kills=1)
    before = take(ours)
    plan = ours.place / "runtime.toml"
    plan.write_text(_SIMPLE)
    script = 'mount --make-rprivate / && mount -t tmpfs -o size=4k,nr_inodes=2 none /run && exec "$@"'
    earlier = newest(home)
    ended = octavo(ours, home, "run", plan, before=["unshare", "--mount", "sh", "-c", script, "sh"])
    check_ended(row, ended, allowed=_FAILED)
    put_back(row, ours, home, before)
    if newest(home) != earlier:
        _resumes(row, ours, home, ended.trials)
    return row


def full_report_target(ours: Ours, home: Path) -> Row:
    """No space for a page: the previous page is kept, and the next one is complete."""
    row = Row("target of a report full", kills=1)
    before = take(ours)
    if newest(home) is None:
        plan = ours.place / "reported.toml"
        plan.write_text(_SIMPLE)
        check_ended(row, octavo(ours, home, "run", plan), allowed=[0])
    with tmpfs(ours.place / "target", 64) as small:
        page = small / "report.html"
        page.write_text("the one before")
        ballast = _fill(small)
        ended = octavo(ours, home, "report", "last", "--html", page)
        check_ended(row, ended, allowed=_FAILED)
        row.lost += page.read_text() != "the one before"
        row.left += [f"file {path}" for path in small.iterdir() if path not in (ballast, page)]
        ballast.unlink()
        row.to_resume += 1
        again = octavo(ours, home, "report", "last", "--html", page)
        row.resumed += again.code == 0 and "</html>" in page.read_text()
    put_back(row, ours, home, before)
    return row


def full_io_target(ours: Ours, home: Path) -> Row:
    """No space for the file of `octavo io --make`: no file is left; with free space again, it is made."""
    row = Row("target of io --make full", kills=1)
    before = take(ours)
    with loop(ours.place / "io-target", ours.place / "io-target.image", 96):
        file = ours.place / "io-target" / "made"
        ballast = _fill(file.parent)
        arguments = ("io", file, "--make", "32MB", "--seconds", "0.2", "--policy", "run")
        check_ended(row, octavo(ours, home, *arguments), allowed=_FAILED)
        row.left += [f"file {path}" for path in file.parent.iterdir() if path.name not in (ballast.name, "lost+found")]
        ballast.unlink()
        row.to_resume += 1
        again = octavo(ours, home, *arguments)
        row.resumed += again.code == 0
        check_ended(row, again, allowed=[0])
    put_back(row, ours, home, before)
    return row


def read_only_store(ours: Ours, home: Path) -> Row | None:
    """The disk of the state directory becomes read-only after the first trial. None if such a disk cannot be made."""
    if cannot_make("ext4") is not None:
        return None
    row = Row("store's disk read-only during a run")
    before_all = take(ours)
    with loop(ours.place / "readonly", ours.place / "readonly.image", 1024) as device:
        small = ours.place / "readonly"
        _share(home, small)
        before = take(ours)
        reported = _until_it_fails(row, ours, small, partial(_turn_read_only, device))
        ours.learn(small)
        # What an administrator does: stop its users, check the filesystem, mount it again.
        octavo(ours, home, "host", "restore")
        subprocess.run(["umount", small], check=True)
        subprocess.run(["fsck.ext4", "-p", "-f", device], check=False, capture_output=True)
        subprocess.run(["mount", "-o", "errors=remount-ro", device, small], check=True)
        put_back(row, ours, small, before)
        _resumes(row, ours, small, reported)
    put_back(row, ours, home, before_all, counted=False)
    return row


def _turn_read_only(device: str) -> None:
    """As the kernel does after a disk error (ext4(5), errors=remount-ro)."""
    Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")


def killed_for_memory(ours: Ours, home: Path) -> Row | None:
    """A statement that needs more than the server's limit: its trial fails, the others are kept. None without
    limits."""
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
    ended = octavo(ours, home, "run", plan, "--seed", "3")
    check_ended(row, ended, allowed=(0, 4))
    stored = newest(home)
    if stored is None or not any("small.sql" in cell for _, cell in ended.trials):
        row.problems.append(f"no trial came about: {stored and stored.others} {ended.last}")
    elif not stored.others:
        row.problems.append("no server met the OOM killer")
    else:
        row.lost += len(ended.trials - stored.finished)
    put_back(row, ours, home, before)
    return row
