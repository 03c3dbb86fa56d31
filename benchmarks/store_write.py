"""How many trials per second the store accepts, as a file and on a PostgreSQL server of our own builds.

    .venv/bin/python benchmarks/store_write.py [--trials 2000] [--writers 1] [--batch 1 --batch 500]

Every trial has all observations of a pgbench trial, 66 series of 20 values, its settings, facts and an identity, all
synthetic (seeded); the packing of series, which is done where they are measured, is not counted. With a batch of 1 each
trial is a transaction of its own, as a run stores it; a coordinator of many hosts commits together what has arrived
within at most a second: 500 at the target rate. `--writers` is the number of concurrent processes, each with its own
runs. The server is one of OCTAVO_HOME's builds with default settings except 128MB of buffers, on the same disk as the
file: a commit waits for that disk (fsync).
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from octavo.home import make_directory, octavo_home
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.instruments import instruments
from octavo.instruments.running import InstrumentSet
from octavo.observation import Observation
from octavo.plan.cells import Cell
from octavo.postgres import cluster
from octavo.postgres.builds.cache import list_builds
from octavo.series import Series
from octavo.store.address import server_address
from octavo.store.kept_trials import new_identity
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store
from octavo.workloads.pgbench import WORKLOAD

GOAL = 500.0


def main() -> None:
    """Writes to each store and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--writers", type=int, action="append")
    parser.add_argument("--batch", type=int, action="append")
    arguments = parser.parse_args()
    metrics = [*WORKLOAD.metrics, *InstrumentSet(instruments(), print).metrics]
    names = {metric.name: metric.unit for metric in metrics}
    print(f"a trial has {len(names)} observations; seconds of the disk's fsync decide what a batch of 1 reaches")
    print(f"{'store':>10}{'writers':>9}{'batch':>7}{'trials':>8}{'seconds':>9}{'trials/s':>10}{'goal':>6}")
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="octavo-store-write-", dir="/var/tmp"))
        stack.callback(shutil.rmtree, directory)
        for kind, url in (("SQLite", ""), ("PostgreSQL", stack.enter_context(server()))):
            for writers in arguments.writers or [1]:
                for batch in arguments.batch or [1, 20, 100, 500]:
                    place = url or str(directory / f"{writers}-{batch}.sqlite")
                    began = prepare(place, writers, batch)
                    seconds = write_all(place, writers, batch, arguments.trials, names, began)
                    rate = arguments.trials / seconds
                    line = f"{kind:>10}{writers:9}{batch:7}{arguments.trials:8}{seconds:9.2f}{rate:10.0f}{GOAL:6.0f}"
                    print(line + ("" if rate >= GOAL else "  missed"), flush=True)


@contextmanager
def server() -> Generator[str, None, None]:
    """The URL of a server for this benchmark, which is removed at the end."""
    build = next((one for one in list_builds() if "b8w8" in one.name), None)
    if build is None:
        sys.exit("there is no build of 8 kB blocks in OCTAVO_HOME; make one with: octavo build 18")
    account = server_account()
    place = make_directory(octavo_home() / "scratch" / "store-write")
    try:
        with Journal() as journal:
            cluster.initialise(
                build, place / "data", journal, account, wal_segment=16 * 1024**2, checksums=True
            )  # fmt: skip
            settings = {"shared_buffers": "128MB"}
            with cluster.start(build, place / "data", settings, journal, account, log=place / "log") as started:
                with started.connect("postgres") as connection:
                    connection.execute("CREATE DATABASE octavo")
                yield f"postgresql://octavo@/octavo?host={started.socket_directory}"
    finally:
        shutil.rmtree(place)


def store_at(place: str) -> Store:
    """The store that a URL or a path names."""
    return Store.open(server_address(place) if place.startswith("postgresql:") else Path(place))


def prepare(place: str, writers: int, batch: int) -> list[str]:
    """A run for each writer."""
    runs = [f"{writers}-{batch}-{number}" for number in range(writers)]
    with closing(store_at(place)) as store:
        for run in runs:
            store.create_run(RunRecord(run, "bulk", "running", "", 1, 0.0, None, {}, "", "", {}, {}), cells())
    return runs


def cells() -> list[Cell]:
    """One cell."""
    return [Cell(id="a", label="a", levels={}, condition="", baseline=False, control=False, dataset="a")]


def write_all(place: str, writers: int, batch: int, trials: int, names: dict[str, str], runs: list[str]) -> float:
    """The seconds from the first trial to the last one's commit, without generating the trials."""
    with ProcessPoolExecutor(writers, mp_context=get_context("spawn")) as pool:
        moments = list(pool.map(write, [place] * writers, runs, [batch] * writers, [trials // writers] * writers,
                                [names] * writers))  # fmt: skip
    return max(end for _, end in moments) - min(start for start, _ in moments)


def write(place: str, run: str, batch: int, trials: int, names: dict[str, str]) -> tuple[float, float]:
    """The times of its begin and end (the machine's monotonic clock)."""
    generator = np.random.default_rng(1)
    settings = {f"setting_{number}": "on" for number in range(380)}
    made = [trial(number, generator, settings, names) for number in range(trials)]
    with closing(store_at(place)) as store:
        began = time.monotonic()
        for start in range(0, trials, batch):
            store.add_trials(run, made[start : start + batch])
        ended = time.monotonic()
        assert store.count_trials(run) == trials
    return began, ended


def trial(number: int, generator: np.random.Generator, settings: dict[str, str], names: dict[str, str]) -> TrialRecord:
    """A synthetic trial of the cell."""
    values = generator.lognormal(6, 2, len(names))
    seen = tuple(
        Observation(name, float(value), unit) for (name, unit), value in zip(names.items(), values, strict=True)
    )
    moments = tuple(1.5 * step + number % 7 / 1000 for step in range(20))
    series = tuple(Series.of(name, unit, moments, tuple(generator.lognormal(6, 2, 20).tolist()))
                   for name, unit in list(names.items())[:66])  # fmt: skip
    facts = {"build": "18.6-b8w8-0123456789ab", "log": f"runs/x/{number:05d}.server.log", "database_bytes": 787_000_000}
    return TrialRecord(
        "a", 1 + number, 1, 1, 1, "ok", None, 40.0 * number, 40.0 * number + 36.5, number, seen, settings,
        {"version": "18.6"}, facts, series=series, identity=new_identity(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
