"""The pages of a trace on which servers are simulated: all of them or, for a large trace, a sample.

A sample is several smaller traces (replicates), each of a share of the extents of 64 pages, with caches smaller in
proportion (`crates/octavo-core/src/simulate/parts.rs`). The error follows from the differences between replicates.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from octavo.predict.recorded import Recorded

REPLICATES = 4
EXTENT = 64
"""The number of consecutive pages that a sample takes or leaves together."""
_SCALES = (64, 32, 16, 8)
# The least sizes of a sample: accesses and extents of all replicates, buffers and readahead windows of each cache.
_LEAST_ACCESSES = 10_000_000
_LEAST_EXTENTS = 1000
_LEAST_BUFFERS = 128
_LEAST_WINDOWS = 16
# The additional error of miniatures' counts (`miniatures_count_as_whole_servers_do`): small caches and rings.
MODEL_ERROR = 0.02
_SURE = 0.975


@dataclass(frozen=True, slots=True)
class Sample:
    """A number of replicates, each with one page out of `scale`. One replicate at scale 1 is all pages."""

    replicates: int = 1
    scale: int = 1

    @property
    def share(self) -> float:
        """The part of the pages that is simulated."""
        return self.replicates / self.scale


@dataclass(frozen=True, slots=True)
class Caches:
    """The sizes of a server's caches, which must not be too small for a miniature. `page_cache`: None without one."""

    buffers: float
    page_cache: float | None
    readahead: int


def sample_of(trace: Recorded, caches: Sequence[Caches]) -> Sample:
    """The smallest sample that is large enough. All pages for traces of less than 20 million accesses, of few pages, or
    with small caches."""
    summary = trace.summary
    accesses = summary["reads"] + summary["extends"] + summary["changes"] + summary["full_page_images"]
    extents = sum(one["blocks"] for one in trace.relations) / EXTENT
    for scale in _SCALES:
        share = REPLICATES / scale
        if (
            accesses * share >= _LEAST_ACCESSES
            and extents * share >= _LEAST_EXTENTS
            and all(one.buffers >= _LEAST_BUFFERS * scale for one in caches)
            and all(
                one.page_cache is None or one.page_cache >= _LEAST_WINDOWS * one.readahead * scale for one in caches
            )
        ):
            return Sample(REPLICATES, scale)
    return Sample()


def error_of(values: Sequence[float]) -> float:
    """Relative half width of the 95 % interval of the mean of replicates, including the model error of miniatures.

    >>> error_of([100.0, 100.0, 100.0, 100.0]), round(error_of([99.0, 101.0, 100.0, 100.0]), 4), error_of([0.0, 0.0])
    (0.02, 0.0238, 0.0)
    """
    mean = statistics.fmean(values)
    if len(values) < 2 or mean <= 0:
        return 0.0
    wide = float(stats.t.ppf(_SURE, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return math.hypot(wide / mean, MODEL_ERROR)
