"""The slowdown of pgbench while a tracing build records, in slices with and without a recording.

    .venv/bin/python benchmarks/trace_overhead.py [--data-block 8kB] [--pairs 8] [--seconds 5] [--clients 8] …

pgbench -S runs all the time and reports the transactions of each second; seconds within a slice with a recording are
compared with those in the adjacent slice, which alternately precedes and follows it. The result is the mean of the
pairs' ratios with its standard error, for transactions per second and for the CPU time per transaction of the server,
pgbench and the recorder together, which other work on the machine disturbs less. Needs the build (octavo build
--traced), and the server's account or root. The cost of probes (bpftrace) is printed by `octavo trace record` itself,
for its slices.
"""

import argparse
import bisect
import math
import os
import re
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from octavo.host import children
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.postgres.builds import usage
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.scratch import scratch_server
from octavo.trace.record.recorder import RecordingRequest, record

GOAL = 0.10
_PROGRESS = re.compile(r"^progress: (\d+\.\d+) s, (\d+\.\d+) tps", re.MULTILINE)
# pgbench connects and fills its caches before the first slice.
_FIRST_SECONDS = 3.0
# The recorder reads the catalog before backends record.
_BEGINS_SECONDS = 1.0
_SAMPLE_SECONDS = 0.1
Span = tuple[float, float]


def main() -> None:
    """Runs the pairs, and prints each one's ratio and the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-block", default="8kB")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5, help="of a slice")
    parser.add_argument("--scale", type=int, default=10, help="pgbench's")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--shared-buffers", default="256MB")
    arguments = parser.parse_args()
    build = usage.find_cached(BuildSpec("18", arguments.data_block, "8kB", traced=True), None)
    if build is None:
        sys.exit(f"there is no tracing build: octavo build --traced --data-block {arguments.data_block}")
    with (
        tempfile.TemporaryDirectory() as directory,
        Journal() as journal,
        scratch_server(build, journal, server_account(), {"shared_buffers": arguments.shared_buffers}) as server,
    ):
        with server.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        server.run_client("pgbench", "--initialize", "--quiet", f"--scale={arguments.scale}", DATABASE)
        speeds, costs = list[float](), list[float]()
        for pair, (on, off) in enumerate(run(server, journal, Path(directory), arguments)):
            speeds.append(on.rate / off.rate)
            costs.append(on.processor / off.processor)
            print(
                f"pair {pair + 1}: {off.rate:9,.0f} tps, {1e6 * off.processor:5.1f} µs each; recording "
                f"{on.rate:9,.0f} tps, {1e6 * on.processor:5.1f} µs each", flush=True
            )  # fmt: skip
    for what, ratios in (("transactions a second", speeds), ("processor time a transaction", costs)):
        mean = sum(ratios) / len(ratios)
        squares = sum((ratio - mean) ** 2 for ratio in ratios)
        error = math.sqrt(squares / (len(ratios) - 1) / len(ratios)) if len(ratios) > 1 else math.nan
        ordered = sorted(ratios)
        middle = (ordered[len(ratios) // 2] + ordered[(len(ratios) - 1) // 2]) / 2
        print(
            f"{what}: {100 * (mean - 1):+.1f} %, standard error {100 * error:.1f} %, "
            f"median {100 * (middle - 1):+.1f} %; goal: {100 * GOAL:.0f} %"
        )


@dataclass(frozen=True)
class Slice:
    """Transactions per second, and seconds of CPU time per transaction."""

    rate: float
    processor: float


class Processors(threading.Thread):
    """Samples the CPU time of the server, of pgbench and of this process."""

    def __init__(self, postmaster: int, client: int) -> None:
        super().__init__(daemon=True)
        self._roots, self._client, self._ended = postmaster, client, threading.Event()
        self.samples = list[tuple[float, float]]()

    def run(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            children = Path(f"/proc/{self._roots}/task/{self._roots}/children").read_text().split()
            seconds = time.process_time() + sum(map(_processor_seconds, (*children, str(self._client))))
            self.samples.append((time.time(), seconds))

    def end(self) -> None:
        self._ended.set()
        self.join()

    def at(self, moment: float) -> float:
        """Interpolates between the two samples around the moment."""
        place = bisect.bisect_left(self.samples, (moment, 0.0))
        (before, low), (after, high) = self.samples[place - 1 : place + 1]
        return low + (high - low) * (moment - before) / (after - before)


def _processor_seconds(process: str) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(server: Server, journal: Journal, directory: Path, arguments: argparse.Namespace) -> list[tuple[Slice, Slice]]:
    """Each pair's whole seconds: with a recording, and without."""
    whole = _FIRST_SECONDS + arguments.pairs * 2 * (arguments.seconds + 2) + 5
    output = directory / "progress"
    options = ["-n", "-S", f"-c{arguments.clients}", "-j2", "-P1", "--progress-timestamp", f"-T{round(whole)}"]
    child, number = server.start_client("pgbench", *options, DATABASE, output=output)
    spans = list[tuple[Span, Span]]()
    processors = Processors(int((server.directory / "postmaster.pid").read_text().split()[0]), child.pid)
    processors.start()
    try:
        time.sleep(_FIRST_SECONDS)
        for pair in range(arguments.pairs):
            if pair % 2:
                on = _recorded(server, journal, directory / f"{pair}.octrace", arguments.seconds)
                spans.append((on, _idle(arguments.seconds)))
            else:
                off = _idle(arguments.seconds)
                spans.append((_recorded(server, journal, directory / f"{pair}.octrace", arguments.seconds), off))
    finally:
        processors.end()
        child.terminate()
        child.wait()
        children.ended(journal, number)
    said = [(float(at), float(rate)) for at, rate in _PROGRESS.findall(output.read_text())]
    return [(_within(said, processors, on), _within(said, processors, off)) for on, off in spans]


def _idle(seconds: float) -> Span:
    began = time.time()
    time.sleep(seconds)
    return began, time.time()


def _recorded(server: Server, journal: Journal, trace: Path, seconds: float) -> Span:
    """The time during which backends record."""
    began = threading.Event()
    dsn = f"host={server.socket_directory} port=5432 user=octavo dbname={DATABASE}"
    thread = threading.Thread(
        target=lambda: record(
            RecordingRequest(dsn, seconds + _BEGINS_SECONDS, trace, None), journal, lambda _text: began.set()
        )
    )
    thread.start()
    began.wait(30)
    start = time.time() + _BEGINS_SECONDS
    thread.join()
    return start, start + seconds


def _within(said: list[tuple[float, float]], processors: Processors, span: Span) -> Slice:
    """The reports of seconds that lie within the span."""
    found = [(at, rate) for at, rate in said if span[0] <= at - 1 and at <= span[1]]
    if not found:
        sys.exit("a slice has no whole second; make them longer with --seconds")
    transactions = sum(rate for _, rate in found)
    seconds = sum(processors.at(at) - processors.at(at - 1) for at, _ in found)
    return Slice(transactions / len(found), seconds / transactions)


if __name__ == "__main__":
    main()
