"""Kills at random moments: of a run that changes every knob, of `hugepages apply`, `build` and `io --make`."""

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from octavo.host.block_limit import cannot_limit
from octavo.host.cgroup import memory_controller
from octavo.host.children import server_account
from octavo.host.loop_volume import cannot_make
from octavo.host.published import MANIFEST
from octavo.knobs.base import not_writable

from .fingerprint import Ours, before_a_command, take
from .victim import KILLED, Row, Stored, Trial, check_ended, draw_kills, newest, octavo, put_back

# The number of kills of one run before it is completed.
_KILLS_OF_A_RUN = 3
# One of this many runs makes its loads anew, so that kills also hit the loading.
_LOADS_ANEW_EVERY = 4


def plan_of_every_knob(data_blocks: Sequence[str]) -> str:
    """A plan with a trial of seconds at each data block, with every knob that this host has."""
    cpus = sorted(os.sched_getaffinity(0))
    levels = {
        "thp": "madvise", "shmem_thp": "advise", "thp_defrag": "defer", "khugepaged": "4096/20s", "readahead": "128kB",
        "swappiness": "61", "dirty_limits": "9%/19%", "overcommit": "always",
        "server_cpus": str(cpus[0]), "client_cpus": str(cpus[-1]),
    }  # fmt: skip
    if cannot_make("ext4") is None:
        levels["filesystem"] = "xfs" if cannot_make("xfs") is None else "ext4"
        levels["device"] = "iops=400,mbps=20" if cannot_limit() is None else "loop"
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
rounds = 1
loads = 1
stopping = "fixed"
control = false
interleave = "trials"
baseline = {{ data_block = "8kB" }}

[factors]
data_block = {json.dumps(data_blocks)}
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


def run_of_every_knob(
    ours: Ours, home: Path, draw: random.Random, count: int, data_blocks: Sequence[str] = ("4kB", "8kB")
) -> Row:
    """Runs that are repeatedly killed and resumed, and then completed."""
    row = Row("a run with every knob")
    plan = home / "faults.toml"
    plan.write_text(plan_of_every_knob(data_blocks))
    before = take(ours)
    whole = octavo(ours, home, "run", plan, "--seed", "5")
    check_ended(row, whole, allowed=[0])
    first = newest(home)
    if first is None or len(first.finished) != len(data_blocks):
        row.problems.append(f"the run came to nothing before any kill: {first and first.others} {whole.last}")
        return row
    put_back(row, ours, home, before, counted=False)
    over = {first.run}
    run: Stored | None = None  # the run to be killed, once it is in the store
    reported: set[Trial] = set()
    of_this_run = begun = 0
    for part in draw_kills(draw, count, 1.0):
        if time.monotonic() > ours.deadline:
            break
        before_a_command(ours, before)
        if run is None:
            if anew := begun % _LOADS_ANEW_EVERY == 0:
                shutil.rmtree(home / "datasets", ignore_errors=True)
            arguments = ("run", plan, "--seed", str(5 + row.kills))
            longest = whole.seconds - (0.0 if anew else 0.8 * first.preparing)
            begun += 1
        else:
            arguments = ("run", "--resume", run.run)
            longest = whole.seconds - 0.8 * first.preparing - len(run.finished) * first.measuring / len(data_blocks)
        kill = replace(part, after=part.after * longest)
        ended = octavo(ours, home, *arguments, kill=kill)
        row.kills += 1
        check_ended(row, ended, allowed=KILLED, kill=kill)
        put_back(row, ours, home, before, kill)
        stored = newest(home)
        if stored is None or stored.run in over:  # killed before the run was stored
            continue
        of_this_run += 1
        reported = _kept(row, reported | ended.trials, stored)
        run = stored
        if stored.status == "finished" or of_this_run == _KILLS_OF_A_RUN:
            _to_its_end(row, ours, home, before, stored, reported, interrupted=of_this_run > 1)
            over.add(stored.run)
            run, of_this_run, reported = None, 0, set[Trial]()
    if run is not None:
        _to_its_end(row, ours, home, before, run, reported, interrupted=of_this_run > 1)
    return row


def _kept(row: Row, reported: set[Trial], stored: Stored) -> set[Trial]:
    """Counts the trials that were reported as finished and are not in the store; returns the others."""
    row.lost += len(reported - stored.finished)
    return reported & stored.finished


def _to_its_end(
    row: Row, ours: Ours, home: Path, before: dict[str, str], stored: Stored, reported: set[Trial], *, interrupted: bool
) -> None:
    """Resumes an interrupted run, unless it has completed; its trials must be kept, and it must end complete."""
    if stored.status == "finished":
        row.to_resume += interrupted
        row.resumed += interrupted and not stored.others
        return
    row.to_resume += 1
    ended = octavo(ours, home, "run", "--resume", stored.run)
    now = newest(home)
    if now is None or now.run != stored.run:
        row.problems.append(f"{stored.run} is not in the store any more")
        return
    _kept(row, reported | stored.finished | ended.trials, now)
    if ended.code == 0 and now.status == "finished" and not now.others:
        row.resumed += 1
    else:
        row.problems.append(f"resuming {stored.run} ended with {ended.code}: {now.others} {ended.last}")
    put_back(row, ours, home, before, counted=False)


def hugepages_apply(ours: Ours, home: Path, draw: random.Random, count: int) -> Row:
    """Huge pages for a stopped cluster, applied and undone; a change that was complete before the kill is kept."""
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
    whole = octavo(ours, home, *arguments)
    check_ended(row, whole, allowed=[0])
    _give_back(row, ours, home)
    for kill in draw_kills(draw, count, whole.seconds):
        if time.monotonic() > ours.deadline:
            break
        before_a_command(ours, before)
        ended = octavo(ours, home, *arguments, kill=kill)
        row.kills += 1
        check_ended(row, ended, allowed=KILLED, kill=kill)
        if (home / "huge_pages.json").exists():  # applied: no leftover; undone as a user would
            _give_back(row, ours, home)
        put_back(row, ours, home, before, kill)
    return row


def _give_back(row: Row, ours: Ours, home: Path) -> None:
    ended = octavo(ours, home, "hugepages", "undo")
    check_ended(row, ended, allowed=[0])


def _programs(home: Path) -> Path:
    """The directory of a build's programs; the runs have made the build."""
    return next(path.parent for path in sorted((home / "builds").glob("*/bin/initdb")))


def build_of_a_matrix(ours: Ours, home: Path, draw: random.Random, count: int, sizes: list[str]) -> Row:
    """Many builds from one tree: those published before a kill are kept, and the next command makes the others."""
    from tests.integration.tiny_postgres import write_tarball

    del home  # it makes its own builds
    row = Row("octavo build --matrix")
    own = ours.place / "builder"
    own.mkdir(mode=0o755)
    tarball = write_tarball(own)
    arguments = ("build", "--matrix", *sizes, "--source", tarball)
    before = take(ours)
    whole = octavo(ours, own, *arguments)
    check_ended(row, whole, allowed=[0])
    all_of_them = _published(own)
    for kill in draw_kills(draw, count, whole.seconds):
        if time.monotonic() > ours.deadline:
            break
        before_a_command(ours, before)
        shutil.rmtree(own / "builds")
        ended = octavo(ours, own, *arguments, kill=kill)
        row.kills += 1
        check_ended(row, ended, allowed=KILLED, kill=kill)
        published = _published(own)
        put_back(row, ours, own, before, kill)
        row.lost += len(published - _published(own))
        if published == all_of_them:
            continue
        row.to_resume += 1
        again = octavo(ours, own, *arguments)
        if again.code == 0 and _published(own) == all_of_them:
            row.resumed += 1
        else:
            row.problems.append(f"building the rest ended with {again.code} ({kill}): {again.last}")
        put_back(row, ours, own, before, counted=False)
    return row


def _published(home: Path) -> set[str]:
    """The builds that a command would use."""
    return {path.parent.name for path in (home / "builds").glob(f"[!.]*/{MANIFEST}")}


def io_make(ours: Ours, home: Path, draw: random.Random, count: int) -> Row:
    """A new file that is made and read; no other file may remain, and the next command completes it."""
    row = Row("octavo io --make")
    place = ours.place / "io"
    place.mkdir()
    file = place / "made"
    arguments = ("io", file, "--make", "256MB", "--seconds", "0.2", "--policy", "single,run")
    before = take(ours)
    whole = octavo(ours, home, *arguments)
    check_ended(row, whole, allowed=[0])
    for kill in draw_kills(draw, count, whole.seconds):
        if time.monotonic() > ours.deadline:
            break
        before_a_command(ours, before)
        file.unlink(missing_ok=True)
        ended = octavo(ours, home, *arguments, kill=kill)
        row.kills += 1
        check_ended(row, ended, allowed=KILLED, kill=kill)
        put_back(row, ours, home, before, kill)
        row.left += [f"file {path}" for path in place.iterdir() if path != file]
        row.to_resume += 1
        # A file that exists is complete.
        again = octavo(ours, home, *(("io", file, "--verify", "--policy", "run") if file.exists() else arguments))
        row.resumed += again.code == 0
        check_ended(row, again, allowed=[0], kill=kill)
    file.unlink(missing_ok=True)
    return row
