"""The assumptions of a prediction and the error of each. Every figure is computed again with each assumption at both
ends. The interval is the root of the sum of squares of these changes; the assumption with the largest change is
named."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from octavo.predict.wal import LIKELY_FILL

Figures = dict[str, float | None]

# Observed with pgbench's TPC-B (benchmarks/predict_counts.py; docs/experiments/prediction.md). That run is the
# calibration; the intervals are not checked against it. At other sizes, for each doubling:
ELSEWHERE_RECORDS = 0.05
ELSEWHERE_READS = 0.03
# On smaller pages updates find room on their own page less often, so more pages are changed and have an image.
SMALLER_IMAGES, LARGER_IMAGES = 0.09, -0.03
# At the recorded size, for the same workload at another time:
LATER_READS = 0.05
LATER_RECORDS = 0.2
# Figures that are parts of a whole.
_SHARES = ("hit_ratio", "page_cache_hit_ratio")
# Where many pages are logged at once, just after a checkpoint, they are seldom emptier than this.
_FULL_PAGES = 0.98


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The assumptions about a workload and its host. CPU is in seconds. `layout` is an index into a size's list of
    rates."""

    layout: int = 0
    scatter: float = 0.0
    """Error of the simulated counts, in half widths of their 95 % interval."""
    sample: float = 0.0
    """Error from simulating a sample of the pages, in half widths of its 95 % interval."""
    first_reads: float = 0.0
    """First reads that would have been hits, while caches were not full: -1 is none of them, 1 twice the likely
    number."""
    cache: float = 0.0
    """The part by which the page cache reads more than in the simulation."""
    growth: float = 0.0
    """Rows a page: -1 and 1 are the bounds."""
    image_fill: float = LIKELY_FILL
    """How full the pages are whose images are in the trace's WAL."""
    later_fill: float = 0.0
    """How much fuller these pages are at another time; the trace's own WAL stays as counted."""
    commits_a_sync: float | None = None
    cpu_request: float = 2e-6
    """To read a block from the kernel, not counting the copy of its bytes."""
    cpu_byte: float = 0.25e-9
    """To copy a byte and to compute its checksum."""
    device_cpu: float = 2.0
    """CPU to read from the device, not counting bytes, as a multiple of that of a read by `octavo io probe`: a server
    also switches to another process, and has other data in the CPU's caches."""
    device_byte: float = 0.8e-9
    """To allocate a byte of the page cache and to reclaim another one, for a read from the device."""
    waits: float = 0.5
    """The share of the recorded waits (time that CPU does not explain) that was spent on reads from the device."""
    latency: float = 0.5e-3
    """Seconds per request of a device whose limits are known but whose latency is not."""
    images: float = 0.0
    """Full-page images: -1 and 1 are the ends of the uncertainty of their correction and of the age of tables."""
    images_beyond: float = 0.0
    """Full-page images of more transactions since a checkpoint than were recorded: -1 and 1 are the bounds."""
    elsewhere_fill: float = 0.0
    """The part by which pages of other sizes are fuller than their layout predicts."""
    elsewhere_images: float = 1.0
    """Additional images at other sizes, as a multiple of the likely number."""
    later: float = 0.0
    """The change of the workload at another time: -1 and 1 are the ends."""
    written_back: float = 0.0
    """The share of the blocks evicted after a checkpoint that the device writes although the simulation does not."""
    elsewhere_records: float = 0.0
    """The part by which records at other sizes are larger than the recorded ones, for each doubling of the size."""
    elsewhere_reads: float = 0.0
    """The same for reads."""
    pace: float = 0.0
    """Other load on the machine: -1 and 1 are the ends of what the trace shows."""
    other_cpu: float = 0.0
    """CPU that is not for reads, at pages twice or half as large: the part by which it may be higher."""


@dataclass(frozen=True, slots=True)
class Variation:
    """An assumption with its two ends."""

    name: str
    field: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its interval of about 95 %, and the assumption that widens it most."""

    value: float
    low: float
    high: float
    because: str

    def as_dict(self) -> dict[str, float | str]:
        """For JSON."""
        return {"value": self.value, "low": self.low, "high": self.high, "because": self.because}


def variations(
    commits_a_sync: float | None,
    clients: int | None,
    layouts: int,
    image_fill: float | None = None,
    *,
    sampled: bool = False,
    after_checkpoint: bool = False,
    probed: bool = True,
) -> list[Variation]:
    """The variations of a prediction. The ends of what is not measured are judgements; docs/predict.md gives the
    reasons.

    `image_fill` is the counted fill of a cycle's images, None where it was not counted. `after_checkpoint`: the
    prediction is for the time after a checkpoint, when many evicted pages may still be dirty at the end. `probed`: the
    CPU time of a read was measured.
    """
    fill = "fill of the pages in full-page images"
    found = [
        Variation("sampling: length of the recording", "scatter", -1.0, 1.0),
        Variation("pages first accessed before caches were full", "first_reads", -1.0, 1.0),
        Variation("simulation of the page cache", "cache", -0.1, 0.1),
        Variation("rows per page", "growth", -1.0, 1.0),
        Variation(fill, "image_fill", 0.85, 1.0)
        if image_fill is None
        else Variation(fill, "later_fill", -0.03, max(0.03, _FULL_PAGES - image_fill)),
        Variation("full-page images: last checkpoint before the trace, age of tables", "images", -1.0, 1.0),
        Variation("share of HOT updates at other sizes", "elsewhere_images", 0.0, 2.0),
        Variation("the same workload at another time: age of its tables", "later", -1.0, 1.0),
        Variation("fill of pages at other sizes", "elsewhere_fill", -0.04, 0.04),
        Variation("records at other sizes", "elsewhere_records", -ELSEWHERE_RECORDS, ELSEWHERE_RECORDS),
        Variation("reads at other sizes", "elsewhere_reads", -ELSEWHERE_READS, ELSEWHERE_READS),
        Variation("other load on the machine", "pace", -1.0, 1.0),
        Variation("CPU to read a block", "cpu_request", 1e-6, 4e-6),
        Variation("CPU to copy and check a byte", "cpu_byte", 0.1e-9, 0.6e-9),
        Variation("CPU to read from the device", "device_cpu", *((1.0, 4.0) if probed else (0.5, 6.0))),
        Variation("CPU of the page cache for a byte read", "device_byte", 0.2e-9, 2e-9),
        Variation("waits of the recorded transactions", "waits", 0.0, 1.0),
        Variation("latency of the device", "latency", 0.1e-3, 1.5e-3),
        Variation("other CPU time that depends on the page size", "other_cpu", -0.02, 0.02),
    ]
    if after_checkpoint:
        found.append(Variation("evicted pages that are still dirty in the page cache", "written_back", 0.0, 1.0))
        found.append(Variation("full-page images of more transactions than were recorded", "images_beyond", -1.0, 1.0))
    if sampled:
        found.append(Variation("sample of the pages", "sample", -1.0, 1.0))
    if layouts > 1:
        found.insert(0, Variation("part of a page that accesses need", "layout", 1, 2))
    if commits_a_sync is None and clients:
        found.append(Variation("commits that share a flush", "commits_a_sync", 1.0, float(max(1, clients))))
    elif commits_a_sync is not None:
        found.append(
            Variation(
                "commits that share a flush", "commits_a_sync", max(1.0, commits_a_sync * 0.7), commits_a_sync * 1.4
            )
        )
    return found


def intervals(
    figures: Callable[[Assumptions], Figures], base: Assumptions, varied: Sequence[Variation]
) -> dict[str, Interval | None]:
    """Every figure with its interval; None where a figure is not known.

    >>> varied = [Variation("fill", "image_fill", 0.85, 1.0)]
    >>> intervals(lambda one: {"x": 100 * one.image_fill}, Assumptions(), varied)["x"].as_dict()
    {'value': 95.0, 'low': 85.0, 'high': 100.0, 'because': 'fill'}
    """
    likely = figures(base)
    ends = [
        (
            one.name,
            [figures(dataclasses.replace(base, **{one.field: _typed(one.field, end)})) for end in (one.low, one.high)],
        )
        for one in varied
    ]
    found: dict[str, Interval | None] = {}
    for name, value in likely.items():
        if value is None:
            found[name] = None
            continue
        below = above = widest = 0.0
        because = ""
        for reason, pair in ends:
            values = [other for figure in pair if (other := figure[name]) is not None]
            down = max([0.0, *(value - other for other in values)])
            up = max([0.0, *(other - value for other in values)])
            below, above = below + down**2, above + up**2
            if max(down, up) > widest:
                widest, because = max(down, up), reason
        high = value + math.sqrt(above)
        high = min(1.0, high) if name in _SHARES else high
        found[name] = Interval(value, max(0.0, value - math.sqrt(below)), high, because)
    return found


def _typed(field: str, end: float) -> float | int:
    return int(end) if field == "layout" else end
