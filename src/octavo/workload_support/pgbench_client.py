"""Runs the build's own pgbench, for every workload that uses it, and parses its output."""

import math
import os
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from octavo.errors import OctavoError, UsageError
from octavo.factor import Check, Factor, duration, one_of, whole_number
from octavo.host import trees
from octavo.host.careful_open import open_file
from octavo.host.safe_read import lines_of
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.units import human_size, parse_duration
from octavo.workloads.base import Levels, WorkloadResult

_WARM_SECONDS = 2
_LOG_PREFIX = "transactions"
# The log is to hold this share of the transactions at most, and no more than what happens in so many seconds.
_MOST_SAMPLED = 0.1
_SAMPLED_SECONDS = 1.0
_MOST_SAMPLED_BYTES = 1024**3

# A line of the log: client, the number of its transaction, latency in µs, script, seconds, microseconds. A failed
# transaction has a word in place of a latency.
LOGGED = re.compile(r"\d+ \d+ (\d{1,18}) (\d{1,9}) (\d{1,18}) (\d{1,9})(?!\S)", re.ASCII)

_TPS = Metric("tps", "TPS", "1/s", "higher")
_LATENCY = Metric("latency_avg_ms", "average latency", "ms", "lower")
_TRANSACTIONS = Metric("transactions", "transactions", "1")
_PERCENTILES = {
    percent: Metric(f"latency_p{percent}_ms", f"latency, {percent}th percentile", "ms", "lower")
    for percent in (50, 95, 99)
}
_SAMPLES = Metric("latency_samples", "transactions in the latency percentiles", "1")
_LAG = Metric("schedule_lag_avg_ms", "average lag behind the offered rate", "ms", "lower")
_MOST_LAG = Metric("schedule_lag_max_ms", "largest lag behind the offered rate", "ms", "lower")

METRICS = (_TPS, _LATENCY, _TRANSACTIONS, *_PERCENTILES.values(), _SAMPLES, _LAG, _MOST_LAG)


def _rate() -> Check:
    number = whole_number(1, 10_000_000)

    def check(text: str) -> str:
        try:
            return text if text == "none" else number(text)
        except UsageError as error:
            raise UsageError(f"{error} a second, or none") from None

    return check


FACTORS = (
    Factor("clients", "run", "concurrent clients", "4", whole_number(1, 10_000)),
    Factor("duration", "run", "length of the measured run", "8s", duration(1, 86_400)),
    Factor("rate", "run", "offered transactions a second (none: as fast as possible)", "none", _rate()),
    Factor("protocol", "run", "pgbench -M", "prepared", one_of("prepared", "simple", "extended")),
)


def seconds_asked(levels: Levels) -> float:
    """The duration's seconds."""
    return parse_duration(levels["duration"])


@contextmanager
def scripts(server: Server, *weighted: tuple[str, int], **variables: str | int) -> Generator[list[str], None, None]:
    """pgbench's options for a workload's own scripts, each a text and its weight, and for the variables in them.

    The server's user can read the files, which are gone at the end. Scripts of weight 0 are left out.
    """
    options = [f"--define={name}={value}" for name, value in variables.items()]
    with trees.readable_scratch("scripts", server.journal, server.account) as directory:
        for number, (text, weight) in enumerate(weighted):
            path = directory / f"{number}.sql"
            with os.fdopen(trees.new_readable(path, server.account), "w") as file:
                file.write(text)
            if weight:
                options.append(f"--file={path}@{weight}")
        yield options


def warm(server: Server, levels: Levels, seed: int, what: Sequence[str]) -> None:
    """A short run of the same kind at full speed, with another random sequence than the measured one."""
    finished = server.run_client("pgbench", *options({**levels, "rate": "none"}, seed + 1, _WARM_SECONDS), *what)
    if finished.returncode != 0:
        reason = complaint(finished.stdout, finished.stderr)
        raise OctavoError(f"pgbench (warm-up) failed (exit {finished.returncode}): {reason}")


def measure(server: Server, levels: Levels, seed: int, what: Sequence[str]) -> WorkloadResult:
    """The measured run of pgbench with the options `what`; the seed gives every cell of a round the same sequence.

    For the latency percentiles pgbench logs a random sample of its transactions, drawn independently of the workload's
    random numbers: at most a tenth of them, and at most as many as happen in a second.
    """
    asked = round(seconds_asked(levels))
    sampled = min(_MOST_SAMPLED, _SAMPLED_SECONDS / asked)
    logging = ["--log", f"--log-prefix={_LOG_PREFIX}", f"--sampling-rate={sampled:.6f}"]
    try:
        finished = server.run_client("pgbench", *options(levels, seed, asked), *logging, *what)
        latencies = _sampled_latencies(_logs(server))
    finally:
        for path in _logs(server):
            path.unlink(missing_ok=True)
    return parse(finished.stdout, finished.stderr, finished.returncode, asked, finished.cpu_seconds, latencies)


def parse(
    stdout: str,
    stderr: str,
    returncode: int,
    seconds_asked: float,
    cpu_seconds: float,
    latencies: Sequence[float] = (),
) -> WorkloadResult:
    """The result from pgbench's output and a sample of latencies (ms). Raises OctavoError if there is none.

    Its running time is that of its rate: transactions / tps. With an offered rate a latency counts from the time at
    which the transaction was due, as in pgbench.
    """
    tps = _number(r"^tps = ([\d.]+)", stdout)
    transactions = _number(r"^number of transactions actually processed: (\d+)", stdout)
    latency = _number(r"^latency average = ([\d.]+) ms", stdout)
    if tps is None or transactions is None or latency is None or tps <= 0:
        raise OctavoError(f"pgbench measured nothing (exit {returncode}): {complaint(stdout, stderr)}")
    problems = [line for line in stderr.splitlines() if "error:" in line or "fatal:" in line]
    failed = _number(r"^number of failed transactions: (\d+)", stdout)
    if failed:
        problems.append(f"{failed:.0f} transactions failed")
    if returncode != 0:
        problems.append(f"pgbench ended with exit code {returncode}")
    observations = observed(tps=tps, latency_ms=latency, transactions=int(transactions), latencies_ms=latencies)
    lag = _number(r"^rate limit schedule lag: avg ([\d.]+) \(max [\d.]+\) ms", stdout)
    most_lag = _number(r"^rate limit schedule lag: avg [\d.]+ \(max ([\d.]+)\) ms", stdout)
    if lag is not None and most_lag is not None:
        observations += [observe(_LAG, lag), observe(_MOST_LAG, most_lag)]
    return WorkloadResult(
        observations=tuple(observations),
        seconds_asked=seconds_asked,
        seconds=transactions / tps,
        transactions=int(transactions),
        client_cpu_seconds=cpu_seconds,
        problems=tuple(problems),
        output=stdout + stderr,
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least this share of the sorted values does not exceed (the nearest rank).

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 99)
    (2.0, 4.0)
    """
    return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1]


def parse_log(lines: Iterable[str]) -> list[float]:
    """Latencies in ms of pgbench's per-transaction log: the third column, in µs. Failed transactions have no number."""
    return [int(found[1]) / 1000 for line in lines if (found := LOGGED.match(line))]


def observed(
    *, tps: float, latency_ms: float | None, transactions: int, latencies_ms: Sequence[float]
) -> list[Observation]:
    """The numbers that every trial of pgbench has; those of latencies where there are any."""
    found = [observe(_TPS, tps), observe(_TRANSACTIONS, transactions)]
    if latency_ms is not None:
        found.insert(1, observe(_LATENCY, latency_ms))
    return found + _observed_percentiles(latencies_ms)


def _observed_percentiles(latencies: Sequence[float]) -> list[Observation]:
    """However few they are: to leave out small samples would leave out the slow trials. Their number is told."""
    if not latencies:
        return []
    ordered = sorted(latencies)
    values = [observe(metric, percentile(ordered, percent)) for percent, metric in _PERCENTILES.items()]
    return [*values, observe(_SAMPLES, len(ordered))]


def options(levels: Levels, seed: int, seconds: int) -> list[str]:
    """pgbench's options for a cell, except for its scripts."""
    clients = int(levels["clients"])
    options = [
        "--no-vacuum", f"--protocol={levels.get('protocol', 'prepared')}", f"--client={clients}",
        f"--jobs={min(clients, os.cpu_count() or 1)}", f"--time={seconds}", f"--random-seed={seed}",
    ]  # fmt: skip
    rate = levels.get("rate", "none")  # a run of an older Octavo knows neither rate nor protocol
    return options if rate == "none" else [*options, f"--rate={rate}"]


def _logs(server: Server) -> list[Path]:
    """One file for each of pgbench's threads, in the directory that it is started in."""
    return list(server.socket_directory.glob(f"{_LOG_PREFIX}.*"))


def _sampled_latencies(paths: Iterable[Path]) -> list[float]:
    return parse_log(log_lines(paths, _MOST_SAMPLED_BYTES))


def log_lines(paths: Iterable[Path], most: int) -> Generator[str, None, None]:
    """The lines of pgbench's logs, which are in a directory of the account's.

    Raises OctavoError if they have more than so many bytes, which pgbench cannot have written.
    """
    left = most
    for path in paths:
        with os.fdopen(open_file(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            left -= size
            if left < 0:
                raise OctavoError(f"pgbench's logs have more than {human_size(most)}; shorten the trial")
            yield from lines_of(file.fileno(), most=size)  # and not what is added meanwhile


def complaint(stdout: str, stderr: str) -> str:
    """pgbench's error: the first one, from which later ones follow, else its last line."""
    lines = stderr.strip().splitlines()
    named = [line for line in lines if "error:" in line or "fatal:" in line]
    return (named or lines[-1:] or stdout.strip().splitlines()[-1:] or ["no output"])[0]


def _number(pattern: str, text: str) -> float | None:
    """The number in the text; None where there is none, or what is none after all (1.2.3, or beyond a float)."""
    match = re.search(pattern, text, re.MULTILINE)
    with suppress(ValueError):
        if match and math.isfinite(number := float(match[1])):
            return number
    return None
