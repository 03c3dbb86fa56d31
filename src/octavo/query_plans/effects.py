"""Splits a difference between two page sizes into the effects of the page and of the plan.

With t(size, plan): at base b with plan p, at size s with plan q, the whole is t(s, q) / t(b, p). The page's part is
t(s, ·) / t(b, ·) with one plan on both sides, the plan's t(·, q) / t(·, p) at one size. Each is taken both ways, and
the geometric mean of the two is given, so that their product is the whole: the main effects of a 2 × 2 factorial
experiment on log scale. Where the two ways differ much, plan and page act together.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from octavo.query_plans.table import Table

# PostgreSQL's own costs.
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Effect:
    """Of a query at a size against the base: ratios of time. `page` and `plan` are None where a plan was not forced.

    `page_range` are the page's parts with the base's plan and with the size's own. `regret` is the time of the chosen
    plan over that of the best one seen at this size.
    """

    query: str
    block: int
    whole: float | None
    page: float | None
    plan: float | None
    page_range: tuple[float, float] | None
    regret: float | None
    same_plan: bool


def medians(table: Table) -> dict[tuple[int, str], float]:
    """Median seconds by size and plan, of those entries that were never cut off."""
    found: dict[tuple[int, str], float] = {}
    for entry in table.entries:
        seconds = [one for one in entry.seconds if one is not None]
        if seconds and len(seconds) == len(entry.seconds):
            found[entry.block, entry.plan] = statistics.median(seconds)
    return found


def effects(table: Table, base: int, costs: str = DEFAULT) -> list[Effect]:
    """An effect for every size but the base, with the plans that these costs chose."""
    times = medians(table)
    chosen = table.chosen(costs)
    return [_effect(table.query, times, chosen, base, block) for block in sorted(chosen) if block != base]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The result of cost settings for all queries at a size: seconds of the chosen plans and of the best plans seen
    there.

    `queries` is the number of queries in these sums. `flips` are the queries with another plan than at the base, by the
    same costs; `worst` is the query whose plan is slowest against its best one, with that ratio. Queries whose chosen
    plan was cut off are in `cut_off` alone.
    """

    costs: str
    block: int
    queries: int
    seconds: float
    best_seconds: float
    flips: tuple[str, ...]
    cut_off: tuple[str, ...]
    worst: tuple[str, float] | None

    @property
    def regret(self) -> float | None:
        """Seconds of the chosen plans over those of the best ones; None without a query."""
        return self.seconds / self.best_seconds if self.best_seconds else None


def chosen(tables: Sequence[Table], costs: str, block: int, base: int) -> Chosen:
    """Of all queries. A query that is cut off under any costs at this size is in no sum, so that costs compare."""
    flips: list[str] = []
    cut_off: list[str] = []
    queries, seconds, best_seconds = 0, 0.0, 0.0
    worst: tuple[str, float] | None = None
    for table in tables:
        by_block, times = table.chosen(costs), medians(table)
        if by_block[block] != by_block[base]:
            flips.append(table.query)
        if (block, by_block[block]) not in times:
            cut_off.append(table.query)
        here = [entry.plan for entry in table.entries if entry.block == block and entry.chosen_by]
        if not all((block, plan) in times for plan in here):
            continue
        mine = times[block, by_block[block]]
        best = min(value for (at, _), value in times.items() if at == block)
        queries, seconds, best_seconds = queries + 1, seconds + mine, best_seconds + best
        if worst is None or mine / best > worst[1]:
            worst = table.query, mine / best
    return Chosen(costs, block, queries, seconds, best_seconds, tuple(flips), tuple(cut_off), worst)


def means(found: Iterable[Effect]) -> tuple[float, float] | None:
    """Geometric means of the page's and the plan's parts, over the effects that have both."""
    both = [(effect.page, effect.plan) for effect in found if effect.page is not None and effect.plan is not None]
    if not both:
        return None
    pages, plans = zip(*both, strict=True)
    return statistics.geometric_mean(pages), statistics.geometric_mean(plans)


def _effect(
    query: str, times: Mapping[tuple[int, str], float], chosen: Mapping[int, str], base: int, block: int
) -> Effect:
    first, second = chosen[base], chosen[block]
    corners = [times.get(key) for key in ((base, first), (block, first), (base, second), (block, second))]
    whole = corners[3] / corners[0] if corners[0] and corners[3] else None
    best = min((seconds for (at, _), seconds in times.items() if at == block), default=None)
    over = corners[3] / best if corners[3] and best else None
    if not all(corners):
        return Effect(query, block, whole, None, None, None, over, first == second)
    at_first, moved, at_second, both = (float(one or 0) for one in corners)
    pages = (moved / at_first, both / at_second)
    plans = (at_second / at_first, both / moved)
    return Effect(
        query, block, whole, math.sqrt(pages[0] * pages[1]), math.sqrt(plans[0] * plans[1]),
        (min(pages), max(pages)), over, first == second,
    )  # fmt: skip
