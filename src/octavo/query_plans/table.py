"""Time by page size and plan: each plan that was found at any size, forced at every other, and run there by turns."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import DictRow

from octavo.errors import OctavoError
from octavo.postgres.plan_shape import Shape, shape_of
from octavo.query_plans.force import Forced, Settings, force
from octavo.query_plans.parting import Joined, joins_of
from octavo.text import one_line

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BlockSizeServer:
    """A server at a block size in bytes, with the data."""

    block: int
    connection: Connection[DictRow]


@dataclass(slots=True)
class TimedPlan:
    """A plan at a block size: which costs chose it there, how it was forced (None: it was not), its seconds by round,
    None for a timeout."""

    block: int
    plan: str
    chosen_by: tuple[str, ...]
    forced: Forced | None
    seconds: list[float | None] = field(default_factory=list[float | None])


@dataclass(frozen=True, slots=True)
class Table:
    """Of one query: the plans by identity in the order of sizes, and an entry for every plan and size.

    `joins` are, by plan, its joins with estimated and actual rows where it was chosen first; only where plans differ.
    """

    query: str
    plans: Mapping[str, Shape]
    entries: tuple[TimedPlan, ...]
    joins: Mapping[str, tuple[Joined, ...]]

    def forced(self) -> tuple[int, int]:
        """How many plans were forced where no costs chose them, of how many."""
        others = [entry for entry in self.entries if not entry.chosen_by]
        return sum(entry.forced is not None for entry in others), len(others)

    def chosen(self, costs: str) -> dict[int, str]:
        """The plan that these costs chose at each size."""
        return {entry.block: entry.plan for entry in self.entries if costs in entry.chosen_by}


@dataclass(frozen=True, slots=True)
class PlanTableRequest:
    """Rounds in which each entry runs once, plans asked for at most to force one, seconds of a query, settings.

    `costs` are the planner's costs by name and block; all of them choose a plan at each size.
    """

    rounds: int
    tries: int
    timeout: float
    seed: int
    settings: Settings
    costs: Mapping[str, Mapping[int, Settings]]


def tables(
    servers: Sequence[BlockSizeServer], queries: Mapping[str, str], request: PlanTableRequest, tell: Tell
) -> list[Table]:
    """The table of every query. Raises OctavoError when a server refuses a query, other than for its time."""
    try:
        for server in servers:
            _prepare(server.connection, request)
        found: list[Table] = []
        for name, query in queries.items():
            tell(f"{name}: plans")
            table = _planned(servers, name, query, request)
            forced, wanted = table.forced()
            tell(f"{name}: {len(table.plans)} plans at {len(servers)} sizes, {forced} of {wanted} forced; timing")
            _timed({server.block: server.connection for server in servers}, query, table, request)
            found.append(table)
        return found
    except psycopg.Error as error:
        raise OctavoError(f"the server refuses a query: {one_line(error)}") from error


def explain(connection: Connection[DictRow], query: str, settings: Settings) -> Shape:
    """The shape of the plan under these settings. Raises OctavoError, psycopg.Error."""
    with connection.transaction():
        _set(connection, settings)
        row = connection.execute(b"EXPLAIN (FORMAT JSON) " + query.encode()).fetchone()
    assert row is not None  # EXPLAIN gives one row in this format
    return shape_of(row["QUERY PLAN"])


def _prepare(connection: Connection[DictRow], request: PlanTableRequest) -> None:
    set_for_session(connection, {**request.settings, "statement_timeout": f"{round(request.timeout * 1000)}"})


def set_for_session(connection: Connection[DictRow], settings: Settings) -> None:
    """These settings, and what plans are compared under: neither JIT nor parallel workers unless asked for."""
    for name, value in {
        "jit": "off",  # it would begin at a cost, and costs are what is changed
        "max_parallel_workers_per_gather": "0",
        **settings,
    }.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))


def _planned(servers: Sequence[BlockSizeServer], name: str, query: str, request: PlanTableRequest) -> Table:
    by_costs = {
        (costs, server.block): explain(server.connection, query, by_block[server.block])
        for costs, by_block in request.costs.items()
        for server in servers
    }
    plans = {shape.identity: shape for shape in by_costs.values()}
    entries: list[TimedPlan] = []
    joins: dict[str, tuple[Joined, ...]] = {}
    for identity, shape in plans.items():
        first_costs, first = next(key for key, chosen in by_costs.items() if chosen == shape)
        for server in servers:
            choosing = tuple(costs for costs in request.costs if by_costs[costs, server.block] == shape)
            if choosing:
                forced: Forced | None = Forced(request.costs[choosing[0]][server.block], 1)
            else:

                def ask(settings: Settings, at: BlockSizeServer = server) -> Shape:
                    return explain(at.connection, query, settings)

                forced = force(ask, shape, page_ratio=server.block / first, tries=request.tries, seed=request.seed)
            entries.append(TimedPlan(server.block, identity, choosing, forced))
            if server.block == first and len(plans) > 1:
                joins[identity] = _joins(server.connection, query, request.costs[first_costs][first])
    return Table(name, plans, tuple(entries), joins)


def _joins(connection: Connection[DictRow], query: str, settings: Settings) -> tuple[Joined, ...]:
    """Estimated and actual rows of the plan's joins; none when it did not end in time."""
    try:
        with connection.transaction():
            _set(connection, settings)
            row = connection.execute(b"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + query.encode()).fetchone()
    except psycopg.errors.QueryCanceled:
        return ()
    assert row is not None
    return joins_of(row["QUERY PLAN"][0]["Plan"])


def _timed(connections: Mapping[int, Connection[DictRow]], query: str, table: Table, request: PlanTableRequest) -> None:
    """Every entry once a round, in random order, so that what a ratio is of lies seconds apart; once more before."""
    order = random.Random(f"{request.seed} {table.query}")
    runnable = [entry for entry in table.entries if entry.forced is not None]
    for number in range(request.rounds + 1):
        order.shuffle(runnable)
        for entry in runnable:
            assert entry.forced is not None
            if number and entry.seconds and entry.seconds[-1] is None:
                continue  # it would be cut off again
            seconds = _run(connections[entry.block], query, entry.forced.settings, table.plans[entry.plan])
            if number or seconds is None:
                entry.seconds.append(seconds)


def _run(connection: Connection[DictRow], query: str, settings: Settings, shape: Shape) -> float | None:
    """Seconds of one run, None when it was cut off. Raises OctavoError when the plan is another one than before."""
    try:
        with connection.transaction():
            _set(connection, settings)
            row = connection.execute(b"EXPLAIN (FORMAT JSON) " + query.encode()).fetchone()
            assert row is not None
            if (now := shape_of(row["QUERY PLAN"])) != shape:
                raise OctavoError(f"the plan became {now.identity} where {shape.identity} was forced")
            started = time.perf_counter()
            connection.execute(query.encode()).fetchall()
            return time.perf_counter() - started
    except psycopg.errors.QueryCanceled:
        return None


def _set(connection: Connection[Any], settings: Settings) -> None:
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, true)", (name, value))
