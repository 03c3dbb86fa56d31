"""Simulation of a trace by several workers, each in its own pass. Page sizes are simulated separately, which changes no
curve. With more workers than sizes, the pages of a size are divided by hash, and each part estimates the whole curve
(SHARDS, Waldspurger et al., FAST 2015); the parts are combined into one estimate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from octavo.trace.core_types import Curve

# The most parts into which the pages of a size are divided: each part reads the whole trace.
MOST_PARTS = 1024
# The cost of simulating a size below the trace's own, relative to another: it has more pages, accessed at random
# places.
_COST_OF_SMALLER = 2.0


@dataclass(frozen=True, slots=True)
class Share:
    """The work of one pass: pages of these sizes (bytes), the k-th of n parts of them by hash, k from 0.
    `concentrated`: the smaller sizes whose concentrated curve follows from one of these."""

    sizes: tuple[int, ...]
    part: tuple[int, int] = (0, 1)
    concentrated: tuple[int, ...] = ()


def shares(own: int, sizes: Sequence[int], workers: int, parts: int | None = None) -> list[Share]:
    """The shares of a trace with pages of `own` bytes: about as many as there are workers, of about equal cost.

    Pages are divided into `parts`; by default only if there are more workers than sizes.

    >>> [(share.sizes, share.part) for share in shares(8192, (8192, 16384, 32768), 2)]
    [((8192, 32768), (0, 1)), ((16384,), (0, 1))]
    >>> [(share.sizes, share.part) for share in shares(8192, (8192,), 2)]
    [((8192,), (0, 2)), ((8192,), (1, 2))]
    """
    smaller = tuple(size for size in sizes if size < own)
    every = sorted({*sizes, own} if smaller else {*sizes})
    cost = {size: _COST_OF_SMALLER if size < own else 1.0 for size in every}

    def share(chosen: Sequence[int], part: tuple[int, int]) -> Share:
        return Share(tuple(chosen), part, smaller if own in chosen else ())

    if parts is None and workers > len(every):
        counts = dict.fromkeys(every, 1)
        for _ in range(min(workers, MOST_PARTS) - len(every)):
            counts[max(every, key=lambda size: cost[size] / counts[size])] += 1
        # A size that is done before the slowest one is not divided further: fewer of its values are then estimates.
        slowest = max(cost[size] / count for size, count in counts.items())
        counts = {size: math.ceil(cost[size] / slowest - 1e-9) for size in every}
        return [share([size], (part, count)) for size, count in counts.items() for part in range(count)]
    groups: list[list[int]] = [[] for _ in range(min(len(every), max(1, workers // (parts or 1))))]
    for size in sorted(every, key=lambda size: -cost[size]):
        min(groups, key=lambda group: sum(cost[one] for one in group)).append(size)
    return [share(sorted(group), (part, parts or 1)) for part in range(parts or 1) for group in groups]


def assembled(sizes: Sequence[int], answers: Sequence[Sequence[Curve]]) -> list[Curve]:
    """Assembles the curves of these sizes from those of all shares."""
    found: dict[tuple[int, str], list[Curve]] = {}
    for curve in (one for curves in answers for one in curves if one["page_size"] in sizes):
        found.setdefault((curve["page_size"], curve["layout"]), []).append(curve)
    return [merged([[one] for one in same])[0] for same in found.values()]


def merged(parts: Sequence[Sequence[Curve]]) -> list[Curve]:
    """Combines the curves of all parts: the mean of unbiased estimates on disjoint pages.

    Its standard error is that of a mean of independent estimates. If the parts cover all pages this is too large rather
    than too small, because no page is left to chance.

    >>> one = {"page_size": 8192, "layout": "merged", "pages": 3.0, "hit_ratios": [0.5], "standard_errors": [0.04]}
    >>> merged([[one], [{**one, "hit_ratios": [0.7], "standard_errors": [0.03]}]])[0]["hit_ratios"]
    [0.6]
    >>> merged([[one], [{**one, "standard_errors": [0.03]}]])[0]["standard_errors"]
    [0.025]
    """
    found: list[Curve] = []
    for same in zip(*parts, strict=True):
        first, count = same[0], len(same)
        if any((one["page_size"], one["layout"]) != (first["page_size"], first["layout"]) for one in same):
            raise ValueError("the parts are of different curves")
        found.append(
            {
                "page_size": first["page_size"],
                "layout": first["layout"],
                "pages": sum(one["pages"] for one in same) / count,
                "hit_ratios": [sum(each) / count for each in zip(*(one["hit_ratios"] for one in same), strict=True)],
                "standard_errors": [
                    math.hypot(*each) / count for each in zip(*(one["standard_errors"] for one in same), strict=True)
                ],
            }
        )
    return found
