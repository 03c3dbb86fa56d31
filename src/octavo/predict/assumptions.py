"""What a prediction assumes, and how far each assumption may be off. Every figure is computed again with each of them
at both ends; the interval is the root of the sum of squares of what that changes, and the widest one is named."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from octavo.predict.wal import LIKELY_FILL

Figures = dict[str, float | None]

# Seen with pgbench's TPC-B (benchmarks/predict_counts.py; docs/experiments/prediction.md), which is the calibration and
# not among what the intervals are checked on. At other sizes, for each doubling:
ELSEWHERE_RECORDS = 0.05
ELSEWHERE_READS = 0.03
# Updates find room on their own page less often where pages are smaller: more pages are changed, and have an image.
SMALLER_IMAGES, LARGER_IMAGES = 0.09, -0.03
# At the recorded size, of the same workload at another time:
LATER_READS = 0.05
LATER_RECORDS = 0.2
# Pages are seldom emptier than that where many are logged at once: those behind a checkpoint.
_FULL_PAGES = 0.98


@dataclass(frozen=True, slots=True)
class Assumptions:
    """CPU is seconds. `layout` is the place in the list of a size's rates."""

    layout: int = 0
    scatter: float = 0.0
    """Of the simulated counts, in half widths of their 95 % interval."""
    sample: float = 0.0
    """The same of what a sample of the pages leaves open."""
    first_reads: float = 0.0
    """First reads that would have been hits, where caches were not full: -1 none of them, 1 twice as many as likely."""
    cache: float = 0.0
    """What the page cache reads more than it is simulated to, as a part."""
    growth: float = 0.0
    """Rows a page: -1 and 1 are the bounds."""
    image_fill: float = LIKELY_FILL
    """Of a page whose image goes into the WAL of the trace."""
    later_fill: float = 0.0
    """How much fuller such pages are at another time: the trace's own WAL stays as it was counted."""
    commits_a_sync: float | None = None
    cpu_request: float = 2e-6
    """To read a block from the kernel, without its bytes."""
    cpu_byte: float = 0.25e-9
    """To copy a byte and to compute its checksum."""
    waits: float = 0.5
    """The part of the recorded waiting (what CPU does not explain) that was for the device's reads."""
    latency: float = 0.5e-3
    """Of a request of a device whose limits are known and whose latency is not."""
    images: float = 0.0
    """Full-page images: -1 and 1 are the ends of what their correction and the age of tables leave open."""
    images_beyond: float = 0.0
    """Full-page images of more transactions since a checkpoint than were recorded: -1 and 1 are their bounds."""
    elsewhere_fill: float = 0.0
    """By what part pages of other sizes are fuller than their layout says."""
    elsewhere_images: float = 1.0
    """What pages of other sizes have more images, over what is likely."""
    later: float = 0.0
    """How the workload differs at another time: -1 and 1 are the ends."""
    written_back: float = 0.0
    """Of what is evicted after a checkpoint, the part that reaches the device beyond what it is simulated to."""
    elsewhere_records: float = 0.0
    """By what part of an octave records at other sizes are larger than the recorded ones."""
    elsewhere_reads: float = 0.0
    """The same of reads."""
    pace: float = 0.0
    """How busy the machine is otherwise: -1 and 1 are the ends of what was seen in the trace."""
    other_cpu: float = 0.0
    """CPU at pages twice or half as large, beside what is read: the part by which it may be more."""


@dataclass(frozen=True, slots=True)
class Variation:
    """An assumption with both of its ends."""

    name: str
    field: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with about 95 %, and the assumption that widens it most."""

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
) -> list[Variation]:
    """Those of a prediction. The ends of what is not measured are judgements, and docs/predict.md has their reasons.

    `image_fill` is what was counted of a cycle's images, None where nobody counted it. `after_checkpoint`: it is of the
    time after a checkpoint, when much of what is evicted may still be dirty in the end.
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
        found[name] = Interval(value, max(0.0, value - math.sqrt(below)), value + math.sqrt(above), because)
    return found


def _typed(field: str, end: float) -> float | int:
    return int(end) if field == "layout" else end
