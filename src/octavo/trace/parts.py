"""A trace in parts: each follows its own part of the pages, and estimates all of every curve (SHARDS, Waldspurger et
al., FAST 2015). Together they are one estimate."""

import math
from collections.abc import Sequence

from octavo.trace.core_types import Curve


def merged(parts: Sequence[Sequence[Curve]]) -> list[Curve]:
    """The curves of all parts as one of each: the mean of estimates that are each unbiased, of disjoint pages.

    Its standard error is that of a mean of independent estimates, which is too large rather than too small where the
    parts are all pages: no page is left to chance then.

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
