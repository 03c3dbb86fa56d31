"""The cost of coordinating a fleet, with many workers that sleep instead of measuring.

    .venv/bin/python -m benchmarks.fleet [--workers 200] [--trials 10000] [--seconds 10]

Scheduler, workers (in four processes) and coordinator run on this machine, with TLS and the fleet's own rounds and
store. For each trial a worker sleeps and returns 170 numbers, 66 series of 20 values and 380 settings, as many as a
trial of pgbench has. These are made before the run, and no two trials that are sent together share them: the work of a
host for its own trials (JSON, its outbox: milliseconds each) would be done here for 200 hosts by the same two CPUs.
Coordination is the time of the run beyond the sleep of one worker, from the moment when all workers are connected until
the run has ended and every worker has been notified. Its parts: the start, until the last worker began; the middle,
until the last trial ended; the end. Start and end do not grow with the run, so their share depends on its length:
10,000 trials of 10 s are 8 minutes, and real runs are longer. Goals: below 2 % of the trials' time, 500 trials per
second into the store, 1 GB for the coordinator.

CPU time is attributed to the machine that would spend it in a real fleet: coordinator and scheduler are on one machine
there too, while that of the workers is spread over as many hosts, but is spent here on the same CPUs.
"""

import argparse
import asyncio
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from octavo.fleet.orders import Delivery, PartOrder, Ready, Report, RunOrder
from octavo.host.journal import Journal
from octavo.lab.events import Notify
from octavo.observation import Observation
from octavo.plan.cells import Cell, load_of
from octavo.plan.model import Plan
from octavo.plan.parse import parse_plan
from octavo.plan.parts import PARTS_OF_A_HOST, host_of_part
from octavo.series import Series
from octavo.store.records import TrialRecord
from octavo.store.trial_json import decode, encode

PROCESSES = 4
# With this many trials a commit's time is that of the trials, not that of the disk's flush.
_LARGE = 100
SCHEDULER = "127.0.0.1:28786"
PLAN = """
name = "fleet"
question = "What does coordinating cost?"
workload = "pgbench"
rounds = {rounds}
loads = 4
stopping = "fixed"
[baseline]
data_block = "8kB"
[factors]
data_block = ["2kB", "4kB", "8kB", "16kB"]
"""
CELLS = 5
SETTINGS = {f"setting_{number}": "on" for number in range(380)}


def state() -> dict[str, Any]:
    """The state of a worker in its run."""
    from distributed import get_worker

    worker: Any = get_worker()
    remembered: dict[str, Any] = getattr(worker, "sleeper", {})
    worker.sleeper = remembered
    return remembered


def begin(order: RunOrder) -> Report:
    """A task: the worker is ready immediately."""
    state().update(order=order, sent=0)
    return Report({"host": {"hostname": order.host, "kernel": "none", "cpu": "none"}}, {}, 0)


def nothing(order: RunOrder, plan: Plan, journal: Journal, notify: Notify) -> Ready:
    """Would make a host ready; `begin` does not use it, so no build is sent."""
    raise NotImplementedError


def measure(order: PartOrder) -> Delivery:
    """A task: sleeps for every cell."""
    mine, seconds = state(), float(os.environ["FLEET_SECONDS"])
    before = mine["sent"]
    told: RunOrder = mine["order"]
    cells = {cell.id: cell for cell in told.cells}
    made: list[tuple[int, TrialRecord]] = []
    for position, name in enumerate(order.cells, 1):
        started = time.time()
        time.sleep(seconds)
        mine["sent"] += 1
        made.append((mine["sent"], trial(cells[name], order.round, position, told.number, started)))
    return Delivery(f"box-{told.host}", tuple(made), time.time(), after=before)


def trial(cell: Cell, round_number: int, position: int, host: int, started: float) -> TrialRecord:
    """A trial with the numbers and settings of its position."""
    return replace(
        contents()[position], cell=cell.id, round=round_number, position=position, load=load_of(cell, round_number, 4),
        started=started, ended=time.time(), part=1 + host * PARTS_OF_A_HOST,
    )  # fmt: skip


@cache
def contents() -> list[TrialRecord]:
    """Trials as large as pgbench's, one for each position in a round; decoded from JSON, so that they share nothing."""
    observations = tuple(
        Observation(metric, 100.0 + number / 3, "1/s")
        for number, metric in enumerate(("tps", *(f"metric_{number}" for number in range(169))))
    )
    drawn = random.Random(1)

    def one() -> TrialRecord:
        values = [[drawn.lognormvariate(6, 2) for _ in range(20)] for _ in range(66)]
        moments = tuple(1.5 * step + drawn.random() / 1000 for step in range(20))
        series = tuple(Series.of(f"metric_{number}", "1/s", moments, tuple(of)) for number, of in enumerate(values))
        return TrialRecord("", 0, 1, 0, 1, "ok", None, 0.0, 0.0, 1, observations, settings=SETTINGS, series=series)

    return [decode(encode("", one()))[1] for _ in range(CELLS + 1)]


def narrow(run: str, cells: Sequence[str]) -> None:
    """Nothing is decided early here."""


def hold(run: str) -> None:
    """No other run needs the host."""


def leave(run: str) -> None:
    """Nothing to restore."""


def finish(run: str, have: Mapping[str, int]) -> None:
    """A task: nothing to restore."""


def serve_workers(first: int, count: int) -> None:
    """Runs that many workers in this process, until it is ended."""
    from benchmarks import fleet as tasks

    from octavo.fleet import certificates
    from octavo.fleet.servers import HostWorker
    from octavo.fleet.tls import BENCH, quiet, security, tls_address

    quiet()
    secured = security(certificates.COORDINATOR)
    tasks.contents()

    async def run() -> None:
        workers = [
            HostWorker(
                tls_address(SCHEDULER), name=f"host{number}", nthreads=1, resources={BENCH: 1}, host="127.0.0.1",
                protocol="tls", security=secured, memory_limit=0, dashboard=False,
                local_directory=os.environ["OCTAVO_HOME"],
            )
            for number in range(first, first + count)
        ]  # fmt: skip
        await asyncio.gather(*(worker.start() for worker in workers))
        await asyncio.gather(*(worker.finished() for worker in workers))

    asyncio.run(run())


def processor_seconds(pids: Sequence[int]) -> float:
    """CPU time of these processes so far."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Took:
    """Durations in seconds, unless the name says otherwise. `joining`: from the start of the workers until the last one
    was connected. `starting`: from the run's start until the last worker began. `ending`: from the last trial's end to
    the run's. `idle`: the longest time that a worker did not sleep between its first trial's start and its last one's
    end. `commits`: the number of trials and the seconds of each."""

    joining: float
    wall: float
    starting: float
    idle: float
    ending: float
    own: float
    scheduler: float
    workers: float
    megabytes: float
    commits: Sequence[tuple[int, float]]

    @property
    def trials(self) -> int:
        """The number of stored trials."""
        return sum(count for count, _ in self.commits)

    def trials_a_second(self, smallest: int = 1) -> float:
        """The rate of the commits of at least `smallest` trials, per second of the commits."""
        chosen = [one for one in self.commits if one[0] >= smallest]
        return sum(count for count, _ in chosen) / sum(seconds for _, seconds in chosen) if chosen else 0.0


def coordinate(plan: Plan, names: Sequence[str], scheduler: int, workers: Sequence[int], spawned: float) -> Took:
    """Runs the fleet and returns the durations; `spawned`: when the workers' processes were started."""
    from benchmarks import fleet as tasks

    from octavo.fleet.dask_hosts import DaskHosts
    from octavo.fleet.session import FleetChoice, start_fleet_run
    from octavo.store.address import store_address
    from octavo.store.store import Store

    commits: list[tuple[int, float]] = []
    add = Store.add_trials

    def timed(self: Store, run: str, records: Sequence[TrialRecord], patience: float = 0.0) -> list[int]:
        began = time.monotonic()
        done = add(self, run, records, patience)
        commits.append((len(records), time.monotonic() - began))
        return done

    Store.add_trials = timed
    hosts = DaskHosts(SCHEDULER, tasks=tasks)
    while len(hosts.present()) < len(names):
        hosts.look()
        time.sleep(0.2)
    joining = time.monotonic() - spawned
    groups = ([os.getpid()], [scheduler], workers)
    before = [processor_seconds(pids) for pids in groups]
    began = time.time()
    choice = FleetChoice(hosts, tuple(names), prepare=tasks.nothing)
    ended = start_fleet_run(plan, "", "", 1, choice, lambda _: None)
    over = time.time()
    own, of_scheduler, of_workers = (processor_seconds(pids) - had for pids, had in zip(groups, before, strict=True))
    hosts.close()
    with closing(Store.open_to_read(store_address())) as store:
        trials = store.trials(ended.run, ())
    assert len(trials) == sum(count for count, _ in commits)
    of_host: dict[int, list[TrialRecord]] = {}
    for one in trials:
        of_host.setdefault(host_of_part(one.part), []).append(one)
    first = [min(one.started for one in mine) for mine in of_host.values()]
    last = [max(one.ended for one in mine) for mine in of_host.values()]
    slept = [len(mine) * float(os.environ["FLEET_SECONDS"]) for mine in of_host.values()]
    return Took(
        joining, over - began, max(first) - began,
        max(end - start - sleep for start, end, sleep in zip(first, last, slept, strict=True)), over - max(last),
        own, of_scheduler, of_workers, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, commits,
    )  # fmt: skip


def main() -> None:
    """Runs the benchmark and prints the durations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--serve", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--schedule", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve_workers(*chosen.serve)
        return
    if chosen.schedule:
        from octavo.fleet.servers import serve_scheduler

        serve_scheduler(SCHEDULER, lambda: print("ready", flush=True))
        return
    from octavo.fleet import certificates

    home = tempfile.mkdtemp(prefix="octavo-fleet-", dir="/var/tmp")
    os.environ |= {"OCTAVO_HOME": home, "FLEET_SECONDS": str(chosen.seconds)}
    children: list[subprocess.Popen[str]] = []
    try:
        certificates.make_authority()
        again = [sys.executable, "-m", "benchmarks.fleet"]
        scheduler = subprocess.Popen(
            [*again, "--schedule"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        children.append(scheduler)
        assert scheduler.stdout is not None
        assert scheduler.stdout.readline()
        each = chosen.workers // PROCESSES
        spawned = time.monotonic()
        for number in range(PROCESSES):
            words = ["--serve", str(number * each), str(each)]
            children.append(subprocess.Popen([*again, *words], stderr=subprocess.DEVNULL, text=True))
        rounds = max(1, chosen.trials // (each * PROCESSES * CELLS))
        names = [f"host{number}" for number in range(each * PROCESSES)]
        plan = parse_plan(PLAN.format(rounds=rounds), origin="benchmark")
        found = coordinate(plan, names, scheduler.pid, [child.pid for child in children[1:]], spawned)
    finally:
        for child in children:
            child.kill()
            child.wait()
        shutil.rmtree(home, ignore_errors=True)
    sleep = rounds * CELLS * chosen.seconds
    more = found.wall - sleep
    print(f"{len(names)} workers, {found.trials} trials of {chosen.seconds:g} s, {rounds} rounds")
    print(f"coordination: {100 * more / sleep:.2f} % ({found.wall:.1f} s for {sleep:.0f} s of trials); goal 2 %")
    middle = more - found.starting - found.ending
    for name, seconds in (("start", found.starting), ("middle", middle), ("end", found.ending)):
        print(f"  {name}: {seconds:.2f} s, {100 * seconds / sleep:.2f} %")
    print(f"a worker was idle between its trials for {found.idle:.2f} s at the most, {100 * found.idle / sleep:.2f} %")
    print(
        f"the store: {found.trials_a_second():.0f} trials a second in {len(found.commits)} commits; "
        f"{found.trials_a_second(_LARGE):.0f} in those of {_LARGE} trials and more"
    )
    print(
        f"processor: coordinator {found.own:.1f} s, scheduler {found.scheduler:.1f} s, workers {found.workers:.1f} s "
        f"({1000 * found.workers / len(names):.0f} ms each)"
    )
    print(f"the coordinator: {found.megabytes:.0f} MB at the most")
    print(f"before the run: workers were connected after {found.joining:.1f} s (starting {PROCESSES} Pythons included)")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
