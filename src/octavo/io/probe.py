"""`octavo io probe`: a device's own sizes, from how long its reads take. Reads only, past the page cache."""

import dataclasses
import random
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from octavo.errors import HostError, UsageError
from octavo.host.facts import host_facts
from octavo.io.curves import find_drop, latency_line, smallest_reaching
from octavo.io.engine import Observe, UnsupportedPolicyError, measure
from octavo.io.job import Job
from octavo.io.target import allocated_share
from octavo.io.write_unit import break_even_seconds

_SECTOR = 512  # no request is smaller, and every one a multiple (the kernel's sector, and `Job.block`)
_LARGEST = 4 * 1024**2
_DEPTH = 32
# Of the whole time: watching for a token bucket, twice (requests, bytes); the curves; alignment.
_WATCH, _CURVES, _ALIGNMENT = 0.3, 0.3, 0.1
_PAIRS = 5
_FULL = 0.9
# The largest request that is shifted by half of itself, in smallest requests.
_LARGEST_SHIFTED = 256
# Data blocks, and what compression or the operating system makes of them.
_SMALLEST_PAGE, _LARGEST_PAGE = 1024, 65536
# Requests up to this size hardly take more CPU than the smallest one: their median is the CPU time of a read.
_MOSTLY_PER_REQUEST = 32768
_FEWEST = 64  # a file holds this many of the largest requests, so that reads are in many places


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """The target of a probe, and its total time in seconds."""

    path: Path
    seconds: float
    seed: int
    observe: Observe
    price: int | None = None
    """What the device costs, in bytes of memory for the same money: for the five-minute rule."""


def probe(asked: Probe) -> dict[str, Any]:
    """Measures, and says what it means as one document. Raises UsageError and HostError."""
    smallest, length = _smallest(asked)
    sizes = [size for size in _powers(smallest, _LARGEST) if size * _FEWEST <= length]
    if len(sizes) < 3:
        raise UsageError(f"{asked.path} is too small to distinguish sizes; probe a file of at least 1 GB, or a device")
    requests = _watch(asked, smallest)
    transfers = _watch(asked, min(1024**2, sizes[-1]))
    share = asked.seconds * _CURVES / len(sizes)
    single = [_point(asked, size, share, depth=1) for size in sizes]
    many = [_point(asked, size, share, depth=_DEPTH) for size in sizes]
    line = latency_line(sizes, [point["latency_us"] / 1e6 for point in single])
    return {
        "schema_version": 1,
        "path": str(asked.path),
        "virtualization": host_facts(asked.path)["virtualization"],
        "allocated_share": allocated_share([asked.path]),
        "smallest_request_bytes": smallest,
        "depth_1": single,
        f"depth_{_DEPTH}": many,
        "latency_line": line
        and {
            "latency_us": line.seconds * 1e6,
            "bytes_per_second": line.bytes_per_second,
            "bend_bytes": line.bend,
            "largest_error": line.largest_error,
        },
        "cpu_us_per_read": median(
            [point["cpu_us_per_request"] for point in single if point["bytes"] <= _MOSTLY_PER_REQUEST]
            or [single[0]["cpu_us_per_request"]]
        ),
        "requests_per_second_ceiling": max(point["requests_per_second"] for point in many),
        "bytes_per_second_ceiling": max(point["bytes_per_second"] for point in many),
        "bandwidth_from_bytes": smallest_reaching(sizes, [point["bytes_per_second"] for point in many], _FULL),
        "five_minute_rule": asked.price
        and {
            "price_in_memory_bytes": asked.price,
            "break_even": [
                {
                    "page_bytes": point["bytes"],
                    "seconds": break_even_seconds(point["bytes"], point["requests_per_second"], asked.price),
                }
                for point in many
                if _SMALLEST_PAGE <= point["bytes"] <= _LARGEST_PAGE
            ],
        },
        "alignment": _alignment(asked, smallest, length),
        "watched": [requests, transfers],
    }


def _job(asked: Probe, block: int, seconds: float, depth: int) -> Job:
    method = "ring" if depth > 1 else "plain"
    return Job(
        (str(asked.path),), block, "random", method=method, depth=depth, direct=True, cache="found", seconds=seconds,
        seed=asked.seed,
    )  # fmt: skip


def _powers(first: int, last: int) -> list[int]:
    sizes = [first]
    while sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return sizes


def _smallest(asked: Probe) -> tuple[int, int]:
    """The smallest request that O_DIRECT takes here (the device's logical sector, or the filesystem's wish), and the
    length of what is probed, both in bytes. Raises HostError when it takes none, or the path may not be read at all."""
    measure(dataclasses.replace(_job(asked, _SECTOR, 1.0, 1), blocks=1, direct=False), asked.observe)
    refused: HostError | None = None
    for size in _powers(_SECTOR, _LARGEST):
        try:
            outcome = measure(dataclasses.replace(_job(asked, size, 1.0, 1), blocks=_FEWEST), asked.observe)
        except HostError as error:
            refused = error
            continue
        return size, outcome.file_bytes
    raise HostError(f"{refused}; no request size bypasses the page cache there; probe another filesystem")


def _measure(asked: Probe, job: Job, observe: Observe) -> Any:
    """With io_uring, or by as many threads where the kernel has none."""
    try:
        return measure(job, observe)
    except UnsupportedPolicyError:
        return measure(dataclasses.replace(job, method="plain", threads=job.depth), observe)


def _point(asked: Probe, size: int, seconds: float, depth: int) -> dict[str, Any]:
    outcome = _measure(asked, _job(asked, size, seconds, depth), asked.observe)
    return {
        "bytes": size,
        "latency_us": outcome.latency(0.5) * 1e6,
        "requests_per_second": outcome.requests / outcome.seconds,
        "bytes_per_second": outcome.bytes / outcome.seconds,
        "cpu_us_per_request": outcome.cpu_seconds / outcome.requests * 1e6,
    }


def _watch(asked: Probe, size: int) -> dict[str, Any]:
    """The rate of requests of one size over time, and whether it falls once and for good."""
    seen: list[tuple[float, int]] = [(0.0, 0)]

    def observe(phase: str, done: float, total: int) -> None:
        asked.observe(phase, done, total)
        seen.append((done, total))

    _measure(asked, _job(asked, size, asked.seconds * _WATCH, _DEPTH), observe)
    pairs = pairwise(seen)
    rates = [(later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in pairs if later[0] > earlier[0]]
    interval = seen[-1][0] / len(rates) if rates else 0.0
    drop = find_drop(rates, interval)
    return {
        "bytes": size,
        "seconds": seen[-1][0],
        "requests": seen[-1][1],
        "requests_per_second": rates,
        "drop": drop and {**dataclasses.asdict(drop), "fill_requests": drop.fill},
    }


def _alignment(asked: Probe, smallest: int, length: int) -> list[dict[str, Any]]:
    """Median latencies of the same reads, at multiples of their size and shifted, measured in turn."""
    found: list[dict[str, Any]] = []
    sizes = [size for size in _powers(2 * smallest, _LARGEST_SHIFTED * smallest) if size * _FEWEST <= length]
    for size in sizes:
        shift = size // 2
        share = asked.seconds * _ALIGNMENT / len(sizes) / _PAIRS / 2
        ratios: list[float] = []
        for turn in range(_PAIRS):
            # The second of a pair finds a part of what it reads in a cache of the device or of the hypervisor.
            order = (0, shift) if turn % 2 else (shift, 0)
            took = {by: _shifted(asked, smallest, size, by, share, length, turn) for by in order}
            ratios.append(took[shift] / took[0])
        found.append(
            {"bytes": size, "shift_bytes": shift, "ratio": median(ratios), "low": min(ratios), "high": max(ratios)}
        )
    return found


def _shifted(asked: Probe, smallest: int, size: int, shift: int, seconds: float, length: int, turn: int) -> float:
    """Median seconds of reads of `size` that begin `shift` bytes behind a multiple of it."""
    per_request = size // smallest
    places = random.Random(f"{asked.seed} {turn}").sample(range(length // size - 1), min(length // size - 1, 10_000))
    starts = [place * per_request + shift // smallest for place in places]
    job = dataclasses.replace(
        _job(asked, smallest, seconds, 1),
        pattern="list", joining="run", most=per_request,
        block_list="\n".join(f"{start}-{start + per_request - 1}" for start in starts),
    )  # fmt: skip
    return measure(job, asked.observe).latency(0.5)
