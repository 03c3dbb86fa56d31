"""How much slower pgbench is while a tracing build records, in slices with and without.

    .venv/bin/python benchmarks/trace_overhead.py [--data-block 8kB] [--pairs 8] [--seconds 5] [--clients 8] …

pgbench -S runs all the time and says each second how many transactions there were; seconds that lie in a slice with a
recording are compared with those in the slice beside it, which comes before it and behind it by turns. What is shown is
the mean of the pairs' ratios with its standard error. Needs the build (octavo build --traced), and the server's account
or root. Of probes (bpftrace) `octavo trace record` itself prints what its slices have cost.
"""

import argparse
import math
import re
import statistics
import sys
import tempfile
import threading
import time
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
# It reads the catalog before backends record.
_BEGINS_SECONDS = 1.0
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
        seconds, ratios = run(server, journal, Path(directory), arguments), list[float]()
        for pair, (on, off) in enumerate(seconds):
            ratios.append(statistics.fmean(on) / statistics.fmean(off))
            print(
                f"pair {pair + 1}: {statistics.fmean(off):9,.0f} tps, recording {statistics.fmean(on):9,.0f}",
                flush=True,
            )
    mean = statistics.fmean(ratios)
    error = statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else float("nan")
    print(
        f"while recording {100 * (1 - mean):.1f} % slower, standard error {100 * error:.1f} %; goal: {100 * GOAL:.0f} %"
    )


def run(
    server: Server, journal: Journal, directory: Path, arguments: argparse.Namespace
) -> list[tuple[list[float], list[float]]]:
    """Transactions a second in the whole seconds of each pair's slices: with a recording, and without."""
    whole = _FIRST_SECONDS + arguments.pairs * 2 * (arguments.seconds + 2) + 5
    output = directory / "progress"
    options = ["-n", "-S", f"-c{arguments.clients}", "-j2", "-P1", "--progress-timestamp", f"-T{round(whole)}"]
    child, number = server.start_client("pgbench", *options, DATABASE, output=output)
    spans = list[tuple[Span, Span]]()
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
        child.terminate()
        child.wait()
        children.ended(journal, number)
    said = [(float(at), float(rate)) for at, rate in _PROGRESS.findall(output.read_text())]
    return [(_within(said, on), _within(said, off)) for on, off in spans]


def _idle(seconds: float) -> Span:
    began = time.time()
    time.sleep(seconds)
    return began, time.time()


def _recorded(server: Server, journal: Journal, trace: Path, seconds: float) -> Span:
    """From when backends record to when they end."""
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


def _within(said: list[tuple[float, float]], span: Span) -> list[float]:
    """What was said of seconds that lie in the span."""
    found = [rate for at, rate in said if span[0] <= at - 1 and at <= span[1]]
    if not found:
        sys.exit("a slice has no whole second; make them longer with --seconds")
    return found


if __name__ == "__main__":
    main()
