"""`octavo io probe --write`: what small, shifted and repeated writes cost, and the unit that is rewritten whole.

Every write is durable before it returns (O_DSYNC), because that is what a database waits for. Files that octavo io
made, or a device that may be lost; what is written can be checked afterwards (`octavo io --verify`).
"""

import dataclasses
import random
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from octavo.errors import HostError, UsageError
from octavo.host.facts import host_facts
from octavo.host.page_stack import page_stack
from octavo.io.curves import find_drop
from octavo.io.engine import Observe, measure
from octavo.io.job import Job
from octavo.io.target import prepare
from octavo.io.write_unit import ShiftedWrite, unit_of_bytes, unit_of_shifts

if TYPE_CHECKING:
    from octavo._core import IoOutcome

_SECTOR = 512
_LARGEST = 256 * 1024
_SHIFTED = 64 * 1024  # larger than any page of an SSD that is published
_LOCAL = 1024**2
_LOCAL_WRITE = 4096
_PAIRS = 9
_PARTS = 3
_FEWEST = 64
# Of the whole time: past the cache and through it by size, shifts, locality, a minute's rate.
_SIZES, _THROUGH, _SHIFTS, _LOCALITY, _SUSTAINED = 0.25, 0.15, 0.35, 0.1, 0.15
_DEPTH = 32


@dataclasses.dataclass(frozen=True, slots=True)
class WriteProbe:
    """The target of writes, and the total time in seconds; `lose_device` allows a block device."""

    path: Path
    seconds: float
    seed: int
    observe: Observe
    lose_device: bool = False


def write_probe(asked: WriteProbe) -> dict[str, Any]:
    """Measures, and says what it means as one document. Raises UsageError and HostError."""
    (path,) = prepare([asked.path], None, asked.observe, write=True, verify=False, lose_device=asked.lose_device)
    asked = dataclasses.replace(asked, path=Path(path))
    smallest, length = _smallest(asked)
    sizes = [size for size in _powers(smallest, _LARGEST) if size * _FEWEST <= length]
    if length < _SHIFTED * _FEWEST:
        raise UsageError(f"{asked.path} is too small to write in many places; make one of 256 MB or more")
    past = [_point(asked, size, asked.seconds * _SIZES / len(sizes), direct=True) for size in sizes]
    cached_sizes = [size for size in _powers(_SECTOR, _LARGEST) if size * _FEWEST <= length]
    through = [_point(asked, size, asked.seconds * _THROUGH / len(cached_sizes), direct=False) for size in cached_sizes]
    shifts = _shifts(asked, smallest, length)
    found = unit_of_shifts(shifts, _SHIFTED)
    return {
        "schema_version": 1,
        "path": str(asked.path),
        "virtualization": host_facts(asked.path)["virtualization"],
        "device_says": _device_says(asked.path),
        "smallest_write_bytes": smallest,
        "past_page_cache": past,
        "through_page_cache": through,
        "page_cache_unit_bytes": unit_of_bytes(cached_sizes, [point["device_bytes_per_write"] for point in through]),
        "shifted_write_bytes": _SHIFTED,
        "shifted": [one.as_dict() for one in shifts],
        "rewritten_unit_bytes": found.bytes,
        "rewritten_unit_reason": found.reason,
        "local": _local(asked, smallest, length),
        "sustained": _sustained(asked, max(smallest, _LOCAL_WRITE)),
    }


def _job(asked: WriteProbe, block: int, seconds: float, *, direct: bool = True) -> Job:
    return Job(
        (str(asked.path),), block, "random", write=True, direct=direct, durable=True, lose_device=asked.lose_device,
        cache="found", seconds=seconds, seed=asked.seed,
    )  # fmt: skip


def _powers(first: int, last: int) -> list[int]:
    return [first << power for power in range((last // first).bit_length())] if first <= last else []


def _smallest(asked: WriteProbe) -> tuple[int, int]:
    """The smallest write that O_DIRECT takes here, and the length of what is probed, in bytes. Raises HostError when it
    takes none, or the path may not be written at all."""
    measure(dataclasses.replace(_job(asked, _SECTOR, 1.0, direct=False), blocks=1), asked.observe)
    refused: HostError | None = None
    for size in _powers(_SECTOR, _LARGEST):
        try:
            outcome = measure(dataclasses.replace(_job(asked, size, 1.0), blocks=1), asked.observe)
        except HostError as error:
            refused = error
            continue
        return size, outcome.file_bytes
    raise HostError(f"{refused}; no write size bypasses the page cache there; probe another filesystem")


def _point(asked: WriteProbe, size: int, seconds: float, *, direct: bool) -> dict[str, Any]:
    parts = [measure(_job(asked, size, seconds / _PARTS, direct=direct), asked.observe) for _ in range(_PARTS)]
    requests, took = sum(part.requests for part in parts), sum(part.seconds for part in parts)
    # The device's counters are everybody's: others only add to them.
    written = [part.device[3] / part.requests for part in parts if part.device is not None and part.requests]
    return {
        "bytes": size,
        "latency_us": median(part.latency(0.5) for part in parts) * 1e6,
        "writes_per_second": requests / took,
        "bytes_per_second": sum(part.bytes for part in parts) / took,
        "device_bytes_per_write": min(written, default=None),
    }


def _shifts(asked: WriteProbe, smallest: int, length: int) -> list[ShiftedWrite]:
    """Writes of one size at multiples of it and shifted, in turn; none where the device takes no shift."""
    steps = _powers(smallest, _SHIFTED // 2)
    found: list[ShiftedWrite] = []
    for shift in steps:
        share = asked.seconds * _SHIFTS / len(steps) / _PAIRS / 2
        ratios: list[float] = []
        for turn in range(_PAIRS):
            # The order of a pair changes, so that what drifts or fills up meanwhile is on both sides.
            places = (0, shift) if turn % 2 else (shift, 0)
            took = {by: _at(asked, smallest, _SHIFTED, by, share, length, turn) for by in places}
            ratios.append(took[shift] / took[0])
        found.append(ShiftedWrite(shift, tuple(ratios)))
    return found


def _at(asked: WriteProbe, smallest: int, size: int, shift: int, seconds: float, length: int, turn: int) -> float:
    """Mean seconds of durable writes of `size` that begin `shift` bytes behind a multiple of it.

    The mean, for a device that is short of bytes takes its time in lumps: most writes are quick, and some wait.
    """
    per_write, count = size // smallest, length // size - 1
    places = random.Random(f"{asked.seed} {turn}").sample(range(count), min(count, 10_000))
    starts = [place * per_write + shift // smallest for place in places]
    listed = "\n".join(f"{start}-{start + per_write - 1}" for start in starts)
    outcome = _listed(asked, smallest, listed, per_write, seconds)
    return outcome.seconds / outcome.requests


def _listed(asked: WriteProbe, block: int, listed: str, most: int, seconds: float) -> "IoOutcome":
    job = dataclasses.replace(_job(asked, block, seconds), pattern="list", joining="run", most=most, block_list=listed)
    return measure(job, asked.observe)


def _local(asked: WriteProbe, smallest: int, length: int) -> dict[str, Any]:
    """The same small writes all over the file, and again and again in one MB of it, in turn."""
    size = max(smallest, _LOCAL_WRITE)
    places, window = range(length // size), _LOCAL // size
    share = asked.seconds * _LOCALITY / _PAIRS / 2
    ratios: list[float] = []
    for turn in range(_PAIRS):
        chosen = random.Random(f"{asked.seed} local {turn}")
        first = chosen.randrange(0, len(places) - window)
        near = [first + chosen.randrange(window) for _ in range(10_000)]
        far = [chosen.choice(places) for _ in range(10_000)]
        near_took, far_took = (
            _listed(asked, size, "\n".join(map(str, numbers)), 1, share).latency(0.5) for numbers in (near, far)
        )
        ratios.append(near_took / far_took)
    return {
        "bytes": size, "window_bytes": _LOCAL, "ratio": median(ratios), "low": min(ratios), "high": max(ratios),
    }  # fmt: skip


def _sustained(asked: WriteProbe, size: int) -> dict[str, Any]:
    """The rate of durable writes, several at once, over time, and whether it falls for good."""
    seen: list[tuple[float, int]] = [(0.0, 0)]

    def observe(phase: str, done: float, total: int) -> None:
        asked.observe(phase, done, total)
        seen.append((done, total))

    job = dataclasses.replace(_job(asked, size, asked.seconds * _SUSTAINED), threads=_DEPTH)
    outcome = measure(job, observe)
    rates = [
        (after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(seen) if after[0] > before[0]
    ]
    drop = find_drop(rates, seen[-1][0] / len(rates)) if rates else None
    return {
        "bytes": size,
        "at_once": _DEPTH,
        "seconds": outcome.seconds,
        "writes_per_second": outcome.requests / outcome.seconds,
        "drop": drop and {**dataclasses.asdict(drop), "fill_requests": drop.fill},
    }


def _device_says(path: Path) -> list[dict[str, Any]]:
    """The layers below the page cache with their sizes as the device itself tells them."""
    wanted = ("filesystem block", "logical sector", "physical sector", "RAID stripe", "SSD page")
    return [layer.as_dict() for layer in page_stack(path) if any(name in layer.layer for name in wanted)]
