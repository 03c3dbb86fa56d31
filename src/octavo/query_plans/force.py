"""Makes the planner choose a plan that it chose elsewhere, by its own settings, and checks the shape that came out.

Only settings that the planner alone reads are changed: the plan that comes out runs as it would have run elsewhere.
work_mem and what else the executor reads stay. First the costs of pages are scaled so that a table costs what it cost
at the other page size; then methods that the plan does not have are switched off; then both are searched at random,
from what came nearest (hill climbing). Only EXPLAIN is run, some milliseconds each.
"""

import random
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from octavo.postgres.plan_shape import Shape

Settings = Mapping[str, str]
# Runs EXPLAIN with these settings and gives the plan's shape.
Explain = Callable[[Settings], Shape]

# PostgreSQL's defaults (config.sgml, "Planner Cost Constants").
_COSTS = {
    "seq_page_cost": 1.0, "random_page_cost": 4.0, "cpu_tuple_cost": 0.01, "cpu_index_tuple_cost": 0.005,
    "cpu_operator_cost": 0.0025,
}  # fmt: skip
_PARALLEL_COSTS = {"parallel_setup_cost": 1000.0, "parallel_tuple_cost": 0.1}
# A method's switch, and the beginning of the nodes that need it.
_METHODS = {
    "enable_seqscan": ("Seq Scan",),
    "enable_indexscan": ("Index Scan",),
    "enable_indexonlyscan": ("Index Only Scan",),
    "enable_bitmapscan": ("Bitmap Heap Scan",),
    "enable_hashjoin": ("Hash Join",),
    "enable_mergejoin": ("Merge Join",),
    "enable_nestloop": ("Nested Loop",),
    "enable_hashagg": ("Aggregate hashed", "Aggregate mixed"),
    "enable_material": ("Materialize",),
    "enable_memoize": ("Memoize",),
    "enable_sort": ("Sort",),
    "enable_incremental_sort": ("Incremental Sort",),
    "enable_gathermerge": ("Gather Merge",),
    "enable_parallel_hash": ("Parallel Hash",),
}
_CACHE_SIZES = ("64MB", "512MB", "4GB", "64GB")
_SCALES = (0.1, 0.25, 0.5, 2.0, 4.0, 10.0)
_STEPS = (0.2, 0.5, 0.7, 0.85, 1.2, 1.5, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Forced:
    """How a plan was forced: the settings, and the number of tries."""

    settings: Settings
    tries: int


def force(explain: Explain, target: Shape, *, page_ratio: float, tries: int = 600, seed: int = 1) -> Forced | None:
    """Settings under which the planner chooses the target; None when none of `tries` did.

    `page_ratio` is this block size over the one that the plan was chosen at. Raises what `explain` raises.
    """
    best: Settings = {}
    nearest: int | None = None
    asked = 0
    for settings in _systematic(target, page_ratio):
        found = explain(settings)
        asked += 1
        if found == target:
            return Forced(settings, asked)
        if nearest is None or (distance(found, target)) < nearest:
            best, nearest = settings, distance(found, target)
        if asked >= tries:
            return None
    order = random.Random(seed)
    parallel = any(node.what.startswith("Gather") for node in target.nodes())
    start, here, best_here = best, nearest or 0, best
    while asked < tries:
        # From the best so far, and now and then anew, as a climb may end on a hill of its own.
        if asked % 150 == 0:
            best_here, here = start, nearest or 0
        settings = _moved(best_here, target, order, parallel=parallel)
        found = explain(settings)
        asked += 1
        if found == target:
            return Forced(settings, asked)
        if (away := distance(found, target)) <= here:
            best_here, here = settings, away
    return None


def distance(one: Shape, other: Shape) -> int:
    """How many nodes of two plans have no like in the other, by themselves and with all that is below them."""
    total = 0
    for of in (Shape.line, Shape.title):
        mine, theirs = Counter(of(node) for node in one.nodes()), Counter(of(node) for node in other.nodes())
        total += ((mine - theirs) + (theirs - mine)).total()
    return total


def _systematic(target: Shape, page_ratio: float) -> Generator[Settings, None, None]:
    """From what leaves everything as it is, over what makes tables cost the same, to what forbids all other methods."""
    yield {}
    same_cost = _scaled({"seq_page_cost": page_ratio, "random_page_cost": page_ratio})
    yield same_cost
    yield _scaled({"seq_page_cost": page_ratio})
    yield _scaled({"random_page_cost": page_ratio})
    unused = _unused(target)
    off = dict.fromkeys(unused, "off")
    yield off
    yield {**off, **same_cost}
    for name in unused:
        yield {name: "off"}
        yield {name: "off", **same_cost}
    for size in _CACHE_SIZES:
        yield {"effective_cache_size": size, **same_cost}
    for factor in _SCALES:
        for name in _COSTS:
            yield _scaled({name: factor})
            yield {**off, **_scaled({name: factor})}


def _moved(settings: Settings, target: Shape, order: random.Random, *, parallel: bool) -> Settings:
    """The settings with one to three things changed."""
    moved = dict(settings)
    costs = {**_COSTS, **(_PARALLEL_COSTS if parallel else {})}
    for _ in range(order.choice((1, 1, 2, 3))):
        kind = order.random()
        if kind < 0.6:
            name = order.choice(list(costs))
            now = float(moved.get(name, costs[name]))
            moved[name] = f"{now * order.choice(_STEPS):.6g}"
        elif kind < 0.85 and (unused := _unused(target)):
            name = order.choice(unused)
            if moved.pop(name, None) is None:
                moved[name] = "off"
        else:
            moved["effective_cache_size"] = order.choice(_CACHE_SIZES)
    return moved


def _unused(target: Shape) -> Sequence[str]:
    """The switches of methods that the plan does not have."""
    titles = {title for node in target.nodes() for title in (node.what, node.what.removeprefix("Parallel "))}
    return [switch for switch, begins in _METHODS.items() if not any(title.startswith(begins) for title in titles)]


def _scaled(factors: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{_COSTS[name] * factor:.6g}" for name, factor in factors.items()}
