"""How much of a run's time is spent on measuring, and where the rest is spent.

    .venv/bin/python benchmarks/overhead.py [--scale 50] [--seconds 30] [--rounds 2] [--set FACTOR=LEVEL] [--keep DIR]

A real run of pgbench at 8 kB, read-only and read-write, each with its control, in a separate state directory that
shares the machine's builds. Needs an otherwise idle machine: other reads and writes of the disk prolong the copy.
Phases come from the trials' own record (facts, `seconds`) and add up to the trial; what a run does once (builds, loads,
checks) is listed separately, because it does not grow with the rounds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from octavo.home import make_directory, octavo_home
from octavo.store.listing import find_run
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store
from octavo.units import human_size

GOAL = 0.7
MEASURING = "measure"

TEXT = """
name = "overhead"
question = "How much of a run is measuring?"
workload = "pgbench"
stopping = "fixed"
rounds = {rounds}
loads = 1

[baseline]
data_block = "8kB"

[factors]
data_block = "8kB"
mode = ["read-only", "read-write"]
scale = {scale}
clients = 4
duration = "{seconds}s"

[settings]
max_wal_size = "16GB"
checkpoint_timeout = "1h"
autovacuum = "off"

# It is the laboratory that is measured: what disturbs PostgreSQL is no reason to run a trial again.
[validity]
most_steal = "100%"
most_foreign_cpu = "100%"
most_foreign_io = "1TB"
"""


def main() -> None:
    """Runs the plan and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=30, help="length of a trial")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="FACTOR=LEVEL", help="passed on to octavo run")
    parser.add_argument("--keep", type=Path, help="a state directory that stays, with its loads")
    arguments = parser.parse_args()

    home: Path = arguments.keep or Path(tempfile.mkdtemp(prefix="octavo-overhead-", dir="/var/tmp"))
    make_directory(home).chmod(0o755)  # the servers' user needs access
    for name in ("builds", "sources"):
        if not (home / name).exists():
            (home / name).symlink_to(make_directory(octavo_home() / name))
    plan = home / "overhead.toml"
    plan.write_text(TEXT.format(rounds=arguments.rounds, scale=arguments.scale, seconds=arguments.seconds))
    os.environ["OCTAVO_HOME"] = str(home)
    changes = [word for change in arguments.set for word in ("--set", change)]
    try:
        command = [sys.executable, "-m", "octavo", "run", str(plan), *changes]
        if (code := subprocess.run(command, stdout=subprocess.DEVNULL).returncode) != 0:
            sys.exit(f"octavo run ended with {code}")
        path = home / "octavo.sqlite"
        with closing(Store.open_to_read(path)) as store:
            run = store.run(find_run(path, "last"))
            show(run, [trial for trial in store.trials(run.id) if trial.status in ("ok", "invalid")])
    finally:
        if arguments.keep is None:
            shutil.rmtree(home)


def show(run: RunRecord, trials: Sequence[TrialRecord]) -> None:
    """Prints seconds per trial by phase, their shares, and the run as a whole."""
    phases = [trial.facts["seconds"] for trial in trials if trial.facts and "seconds" in trial.facts]
    if not phases:
        sys.exit("no trial tells where its time went")
    assert run.ended is not None
    inside = sum(trial.ended - trial.started for trial in trials)
    names = list(dict.fromkeys(name for seconds in phases for name in seconds))
    size = human_size((trials[0].facts or {}).get("database_bytes", 0))
    print(f"\n{len(trials)} trials, database {size}, load average {os.getloadavg()[0]:.1f} at the end")
    print(f"{'phase':14}{'seconds':>9}{'least':>8}{'most':>8}{'share':>8}")
    for name in sorted(names, key=lambda name: -sum(seconds.get(name, 0.0) for seconds in phases)):
        each = [seconds.get(name, 0.0) for seconds in phases]
        share = sum(each) / inside
        print(f"{name:14}{sum(each) / len(each):9.2f}{min(each):8.2f}{max(each):8.2f}{share:8.1%}")
    rest = inside - sum(sum(seconds.values()) for seconds in phases)
    print(f"{'(not timed)':14}{rest / len(trials):9.2f}{'':16}{rest / inside:8.1%}")
    measured = sum(seconds.get(MEASURING, 0.0) for seconds in phases)
    whole = run.ended - run.started
    print(f"{'a trial':14}{inside / len(trials):9.2f}")
    print(f"\nmeasuring: {measured / inside:.1%} of the trials' time (goal {GOAL:.0%})")
    print(f"builds, loads, checks and between trials: {whole - inside:.1f} s of the run's {whole:.1f} s")
    print(f"measuring: {measured / whole:.1%} of this run's time with them")


if __name__ == "__main__":
    main()
