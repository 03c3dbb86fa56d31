"""The cost of monitoring: the instruments' own CPU, and the reduction of the transaction rate that they cause.

    .venv/bin/python benchmarks/observer.py [--clients 100] [--seconds 10] [--rounds 10] [--scale 20] [--mode read-only]

One scratch server of a cached build, pgbench with many connections. Each round measures with all default instruments
and without any, in random order; the effect is the mean of the rounds' log ratios with Student's 95 % interval, so that
drift or other load on the machine widens the interval instead of shifting the result. The CPU is that of the sampler's
thread and of the backend that serves it, as each trial records it. Needs a build (octavo build), no root.
"""

import argparse
import math
import os
import random
import re
import sys
from collections.abc import Sequence

import numpy as np

from octavo.host import children
from octavo.host.children import Finished, server_account
from octavo.host.journal import Journal
from octavo.instruments import instruments
from octavo.instruments.running import InstrumentResults, InstrumentSet
from octavo.postgres.builds import usage
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.scratch import scratch_server
from octavo.workloads.base import WorkloadResult

GOAL = 0.005
_MODES = {"read-only": ["-S"], "read-write": []}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=10, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--scale", type=int, default=20, help="pgbench's")
    parser.add_argument("--mode", choices=_MODES, default="read-only")
    parser.add_argument("--data-block", default="8kB")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    build = usage.find_cached(BuildSpec("18", arguments.data_block, "8kB"), None)
    if build is None:
        sys.exit(f"there is no build with {arguments.data_block} data blocks yet: octavo build makes it")
    order = random.Random(arguments.seed)
    settings = {"shared_buffers": "512MB", "max_connections": str(arguments.clients + 20)}
    ratios: list[float] = []
    seen: list[InstrumentResults] = []
    with Journal() as journal, scratch_server(build, journal, server_account(), settings) as server:
        with server.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        pgbench(server, ["--initialize", "--quiet", f"--scale={arguments.scale}"])
        observers = InstrumentSet(instruments(), lambda text: print(text, file=sys.stderr))
        options = [
            "--no-vacuum",
            *_MODES[arguments.mode],
            "-c",
            str(arguments.clients),
            "-j",
            "2",
            "-T",
            str(arguments.seconds),
        ]
        pgbench(server, [*options[:-1], "5"])  # fills the caches
        for number in range(1, arguments.rounds + 1):
            tps: dict[bool, float] = {}
            for watched in order.sample([True, False], 2):
                with server.connect(DATABASE) as connection:
                    connection.execute("CHECKPOINT")
                tps[watched], found = measure(server, observers if watched else None, options, arguments.seconds)
                seen += [found] if found is not None else []
            ratios.append(math.log(tps[True] / tps[False]))
            print(f"round {number}: {tps[False]:9.0f} tps unwatched, {tps[True]:9.0f} watched", flush=True)
    show(ratios, seen, arguments.seconds)


def measure(
    server: Server, observers: InstrumentSet | None, options: Sequence[str], seconds: int
) -> tuple[float, InstrumentResults | None]:
    """Transactions per second, and the instruments' results if there were any."""
    if observers is None:
        return tps_of(pgbench(server, options)), None
    with observers.start(server) as watching:
        finished = pgbench(server, options)
        tps = tps_of(finished)
        result = WorkloadResult(
            (), seconds, round(tps * seconds), seconds_asked=seconds, client_cpu_seconds=finished.cpu_seconds
        )
        return tps, watching.finish(result)


def tps_of(finished: Finished) -> float:
    """The rate that pgbench reports."""
    return float(re.findall(r"^tps = ([\d.]+)", finished.stdout, re.MULTILINE)[0])


def pgbench(server: Server, options: Sequence[str]) -> Finished:
    """Runs pgbench until it ends."""
    finished = children.run(
        [server.build.program("pgbench"), *options],
        server.journal, role="pgbench", account=server.account, directory=server.socket_directory,
        environment=server.client_environment(),
    )  # fmt: skip
    return children.check(finished, "pgbench")


def value(seen: InstrumentResults, metric: str) -> float:
    """The observation of the trial as a whole."""
    return next(one.value for one in seen.observations if one.metric == metric and one.item is None)


def show(ratios: Sequence[float], seen: Sequence[InstrumentResults], seconds: int) -> None:
    """Prints the cost of each instrument in the last round, its share of the machine, and the effect with its
    interval."""
    from scipy import stats

    print(f"\n{'instrument':28}{'CPU ms a second':>16}")
    shares = [value(one, "instruments_cpu_share") for one in seen]
    costs = [one for one in seen[-1].observations if one.metric == "instrument_cpu_seconds"]
    for one in sorted(costs, key=lambda one: -one.value):
        print(f"{one.item or '':28}{one.value / seconds * 1000:16.2f}")
    print(
        f"\nall of them: {np.mean(shares):.3%} of the machine ({os.cpu_count()} CPUs), at most "
        f"{max(shares):.3%}; goal {GOAL:.1%}"
    )
    mean = float(np.mean(ratios))
    half = (
        float(stats.t.ppf(0.975, len(ratios) - 1) * np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
        if len(ratios) > 1
        else math.inf
    )
    low, high = math.expm1(mean - half), math.expm1(mean + half)
    print(
        f"effect on transactions: {math.expm1(mean):+.2%} ({low:+.2%} … {high:+.2%}, 95 %, {len(ratios)} paired "
        f"rounds of {seconds} s), load average {os.getloadavg()[0]:.1f} at the end"
    )


if __name__ == "__main__":
    main()
