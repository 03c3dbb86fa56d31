"""What coordinating a fleet costs: many workers that sleep instead of measuring.

    .venv/bin/python -m benchmarks.fleet [--workers 200] [--trials 10000] [--seconds 6]

Scheduler, workers (in four processes) and coordinator are on this machine, with TLS and the fleet's own rounds and
store; a worker sleeps for each trial and gives 40 numbers and 300 settings. Coordination is the time of the run beyond
the sleep of one worker. Goals: below 2 % of the trials' time, 500 trials a second into the store, 1 GB for the
coordinator.
"""

import argparse
import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from octavo.fleet.orders import Delivery, PartOrder, Ready, Report, RunOrder
from octavo.host.journal import Journal
from octavo.lab.events import Notify
from octavo.observation import Observation
from octavo.plan.cells import Cell, load_of
from octavo.plan.model import Plan
from octavo.plan.parse import parse_plan
from octavo.plan.parts import PARTS_OF_A_HOST
from octavo.store.records import TrialRecord

PROCESSES = 4
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
SETTINGS = {f"setting_{number}": "on" for number in range(300)}


def state() -> dict[str, Any]:
    """What a worker remembers of its run."""
    from distributed import get_worker

    worker: Any = get_worker()
    remembered: dict[str, Any] = getattr(worker, "sleeper", {})
    worker.sleeper = remembered
    return remembered


def begin(order: RunOrder) -> Report:
    """A task: the worker is ready at once."""
    state().update(order=order, sent=0)
    return Report({"host": {"hostname": order.host, "kernel": "none", "cpu": "none"}}, {}, 0)


def nothing(order: RunOrder, plan: Plan, journal: Journal, notify: Notify) -> Ready:
    """What would make a host ready; `begin` does not ask for it, and no build travels."""
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
    """A trial as pgbench's are: 40 numbers, and the settings that most share."""
    observations = tuple(Observation(f"metric_{number}", 100.0 + number, "1/s") for number in range(39))
    return TrialRecord(
        cell.id, round_number, 1, position, load_of(cell, round_number, 4), "ok", None, started, time.time(), 1,
        (Observation("tps", 1000.0 + host, "1/s"), *observations), settings=SETTINGS,
        part=1 + host * PARTS_OF_A_HOST,
    )  # fmt: skip


def narrow(run: str, cells: Sequence[str]) -> None:
    """Nothing is decided early here."""


def finish(run: str, have: Mapping[str, int]) -> None:
    """A task: there is nothing to restore."""


def serve_workers(first: int, count: int) -> None:
    """So many workers in this process, until it is ended."""
    from octavo.fleet import certificates
    from octavo.fleet.servers import HostWorker
    from octavo.fleet.tls import BENCH, quiet, security, tls_address

    quiet()
    secured = security(certificates.COORDINATOR)

    async def run() -> None:
        workers = [
            HostWorker(
                tls_address(SCHEDULER), name=f"host{number}", nthreads=1, resources={BENCH: 1}, host="127.0.0.1",
                protocol="tls", security=secured, memory_limit=0, dashboard=False,
            )
            for number in range(first, first + count)
        ]  # fmt: skip
        for worker in workers:  # one by one: the scheduler's listener has room for 64 handshakes at once
            await worker.start()
        await asyncio.gather(*(worker.finished() for worker in workers))

    asyncio.run(run())


def coordinate(plan: Plan, names: Sequence[str]) -> dict[str, float]:
    """The run, and what it took."""
    from benchmarks import fleet as tasks

    from octavo.fleet.dask_hosts import DaskHosts
    from octavo.fleet.session import FleetChoice, start_fleet_run
    from octavo.store.store import Store

    spent = {"seconds": 0.0, "trials": 0.0}
    add = Store.add_trials

    def timed(self: Store, run: str, records: Sequence[TrialRecord], patience: float = 0.0) -> list[int]:
        began = time.monotonic()
        done = add(self, run, records, patience)
        spent["seconds"] += time.monotonic() - began
        spent["trials"] += len(records)
        return done

    Store.add_trials = timed
    hosts = DaskHosts(SCHEDULER, tasks=tasks)
    while len(hosts.present()) < len(names):
        hosts.look()
        time.sleep(1)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    ended = start_fleet_run(plan, "", "", 1, FleetChoice(hosts, tuple(names), prepare=tasks.nothing), lambda _: None)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    hosts.close()
    assert ended.outcome.ok == spent["trials"]
    return {
        "wall": wall,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "megabytes": after.ru_maxrss / 1024,
        "trials": spent["trials"],
        "store": spent["trials"] / spent["seconds"],
    }


def main() -> None:
    """Prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=6.0)
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
        for number in range(PROCESSES):
            words = ["--serve", str(number * each), str(each)]
            children.append(subprocess.Popen([*again, *words], stderr=subprocess.DEVNULL, text=True))
        rounds = max(1, chosen.trials // (each * PROCESSES * CELLS))
        names = [f"host{number}" for number in range(each * PROCESSES)]
        found = coordinate(parse_plan(PLAN.format(rounds=rounds), origin="benchmark"), names)
    finally:
        for child in children:
            child.kill()
            child.wait()
        shutil.rmtree(home, ignore_errors=True)
    sleep = rounds * CELLS * chosen.seconds
    more = found["wall"] - sleep
    print(f"{len(names)} workers, {found['trials']:.0f} trials of {chosen.seconds:g} s, {rounds} rounds")
    print(f"coordination: {100 * more / sleep:.2f} % ({found['wall']:.1f} s for {sleep:.0f} s of trials)")
    print(f"the store: {found['store']:.0f} trials a second")
    print(f"the coordinator: {found['cpu']:.1f} s of CPU, {found['megabytes']:.0f} MB at the most")


if __name__ == "__main__":
    main()
