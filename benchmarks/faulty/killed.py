"""Kills at random moments: of a run that turns every knob, of `hugepages apply`, `build` and `io --make`."""

import os
import random
import shutil
import subprocess
from pathlib import Path

from octavo.host.cgroup import memory_controller
from octavo.host.children import server_account
from octavo.host.loop_volume import cannot_make
from octavo.knobs.base import not_writable
from octavo.postgres.builds.cache import MANIFEST

from .fingerprint import Ours, take
from .victim import WAYS, Row, Trial, Way, check_ended, octavo, put_back, stored, until_trials

# A command that ends by itself before its kill ends well; one that is killed may end by the signal, or as interrupted.
_KILLED = (0, -9, -15, 130, 143)
# The moments are drawn from the whole of a command, and a tenth more.
_BEYOND = 1.1


def kills(draw: random.Random, count: int, longest: float) -> list[tuple[float, Way, float]]:
    """So many moments in seconds, each with its way, in turn, and the seconds to the second signal."""
    return [
        (draw.uniform(0.0, _BEYOND * longest), WAYS[number % len(WAYS)], draw.uniform(0.0, 1.0))
        for number in range(count)
    ]


def plan_of_every_knob() -> str:
    """A plan of seconds with every knob that this host has, beside a plain baseline."""
    cpus = sorted(os.sched_getaffinity(0))
    levels = {
        "thp": "madvise", "shmem_thp": "advise", "thp_defrag": "defer", "khugepaged": "4096/20s", "readahead": "128kB",
        "swappiness": "61", "dirty_limits": "9%/19%", "overcommit": "always", "device": "iops=20000,mbps=400",
        "server_cpus": str(cpus[0]), "client_cpus": str(cpus[-1]),
    }  # fmt: skip
    levels["filesystem"] = "xfs" if cannot_make("xfs") is None else "ext4"
    if Path("/sys/kernel/mm/hugepages/hugepages-2048kB").exists():
        levels["huge_pages"] = "2MB"
    if not_writable(Path("/sys/class/zram-control/hot_remove")) is None:
        levels["zram_swap"] = "16MB"
    if memory_controller() is not None:
        levels["memory"] = "256MB"
    if any("mq-deadline" in path.read_text() for path in Path("/sys/block").glob("loop*/queue/scheduler")):
        levels["io_scheduler"] = "mq-deadline"
    cell = "\n".join(f'{name} = "{level}"' for name, level in levels.items())
    return f"""
name = "faults"
question = "Is the host as it was found?"
workload = "pgbench"
rounds = 1000
loads = 1
stopping = "fixed"
control = false
baseline = {{ data_block = "8kB" }}

[factors]
data_block = ["4kB", "8kB"]
mode = "read-write"
scale = 1
clients = 1
duration = "1s"
wal_segment = "1MB"
recycled_wal = "2MB"
shared_buffers = "16MB"
{cell}

[validity]
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
shortest_duration = "1%"
fewest_transactions = 1
"""


def run_of_every_knob(ours: Ours, home: Path, draw: random.Random, count: int) -> Row:
    """One run, killed and resumed again and again."""
    row = Row("a run with every knob")
    plan = home / "faults.toml"
    plan.write_text(plan_of_every_knob())
    before = take(ours)
    first = until_trials(home, 2, "run", plan, "--seed", "5")
    ours.learn(home)
    check_ended(row, first, allowed=_KILLED)
    if not first.trials:
        row.problems.append(f"no trial came about: {first.last}")
        return row
    put_back(row, ours, home, before)
    reported: set[Trial] = set(first.trials)
    again = until_trials(home, 1, "run", "--resume", "last")
    reported |= set(again.trials)
    put_back(row, ours, home, before)
    row.to_resume, row.resumed = 1, int(bool(again.trials))
    for kill in kills(draw, max(0, count - 2), again.seconds):
        ended = octavo(home, "run", "--resume", "last", kill=kill)
        check_ended(row, ended, allowed=_KILLED)
        put_back(row, ours, home, before)
        reported |= set(ended.trials)
        row.lost += len(reported - stored(home))
        reported &= stored(home)  # what is lost is counted once
    row.to_resume += 1
    row.resumed += bool(until_trials(home, 1, "run", "--resume", "last").trials)
    put_back(row, ours, home, before)
    return row


def hugepages_apply(ours: Ours, home: Path, draw: random.Random, count: int) -> Row:
    """Pages for a stopped cluster, taken and given back; a change that was whole when the kill came is kept."""
    row = Row("octavo hugepages apply")
    place = ours.place / "cluster"
    programs = _programs(home)
    account = server_account()
    place.mkdir()
    shutil.chown(place, account.uid, account.gid)
    confined = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
    data = place / "data"
    subprocess.run(
        [*confined, programs / "initdb", "--no-sync", "--auth=trust", "-D", data], check=True, capture_output=True,
        cwd="/",
    )  # fmt: skip
    with (data / "postgresql.conf").open("a") as file:
        file.write("shared_buffers = 32MB\n")
    arguments = ("hugepages", "apply", "--pgdata", data, "--bindir", programs, "--page-size", "2MB")
    before = take(ours)
    whole = octavo(home, *arguments)
    check_ended(row, whole, allowed=[0])
    _give_back(row, home)
    for kill in kills(draw, count, whole.seconds):
        ended = octavo(home, *arguments, kill=kill)
        check_ended(row, ended, allowed=_KILLED)
        ours.learn(home)
        if (home / "huge_pages.json").exists():  # applied: that is no leftover, and undone as a user would
            octavo(home, "host", "restore")
            _give_back(row, home)
        put_back(row, ours, home, before)
    return row


def _give_back(row: Row, home: Path) -> None:
    ended = octavo(home, "hugepages", "undo")
    check_ended(row, ended, allowed=[0])


def _programs(home: Path) -> Path:
    """Where the programs of a build are, which the runs have made."""
    return next(path.parent for path in sorted((home / "builds").glob("*/bin/initdb")))


def build_of_a_matrix(ours: Ours, home: Path, draw: random.Random, count: int, sizes: list[str]) -> Row:
    """Many builds out of one tree: what was published before a kill stays, and the next command makes the rest."""
    from tests.integration.tiny_postgres import write_tarball

    row = Row("octavo build --matrix")
    own = ours.place / "builder"
    own.mkdir(mode=0o755)
    tarball = write_tarball(own)
    arguments = ("build", "--matrix", *sizes, "--source", tarball)
    before = take(ours)
    whole = octavo(own, *arguments)
    check_ended(row, whole, allowed=[0])
    all_of_them = _published(own)
    for kill in kills(draw, count, whole.seconds):
        shutil.rmtree(own / "builds", ignore_errors=True)
        ended = octavo(own, *arguments, kill=kill)
        check_ended(row, ended, allowed=_KILLED)
        published = _published(own)
        put_back(row, ours, own, before)
        row.lost += len(published - _published(own))
    row.to_resume = 1
    again = octavo(own, *arguments)
    row.resumed = int(again.code == 0 and _published(own) == all_of_them)
    put_back(row, ours, own, before)
    row.kills -= 1
    row.at_once -= 1
    return row


def _published(home: Path) -> set[str]:
    """The builds that a command would use."""
    return {path.parent.name for path in (home / "builds").glob(f"[!.]*/{MANIFEST}")}


def io_make(ours: Ours, home: Path, draw: random.Random, count: int) -> Row:
    """A file of its own that is made and read; beside it nothing may stay, and the next command makes it whole."""
    row = Row("octavo io --make")
    place = ours.place / "io"
    place.mkdir()
    file = place / "made"
    arguments = ("io", file, "--make", "256MB", "--seconds", "0.2", "--policy", "single,run")
    before = take(ours)
    whole = octavo(home, *arguments)
    check_ended(row, whole, allowed=[0])
    for kill in kills(draw, count, whole.seconds):
        file.unlink(missing_ok=True)
        ended = octavo(home, *arguments, kill=kill)
        check_ended(row, ended, allowed=_KILLED)
        put_back(row, ours, home, before)
        row.left += [f"file {path}" for path in place.iterdir() if path != file]
        row.to_resume += 1
        # A file that is there is whole.
        again = octavo(home, *(("io", file, "--verify", "--policy", "run") if file.exists() else arguments))
        row.resumed += again.code == 0
        check_ended(row, again, allowed=[0])
    return row
