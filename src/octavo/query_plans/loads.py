"""Plans of several loads at one page size, with the statistics of each load and with those of one for all.

TPC-H's rows are the same in every load. What differs is what ANALYZE drew of them (and, at another page size, the
numbers of pages). Plans that differ between loads of one size are therefore a matter of statistics if they become one
plan when all loads have the statistics of one; if they do not, it is something else. Nothing but EXPLAIN is run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import DictRow

from octavo.errors import OctavoError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.plan_shape import Shape
from octavo.query_plans.force import Settings
from octavo.query_plans.loads_document import document
from octavo.query_plans.servers import loaded
from octavo.query_plans.statistics import PlannerStatistics, read, restore
from octavo.query_plans.table import Tell, explain, set_for_session
from octavo.text import one_line
from octavo.units import human_count, human_duration
from octavo.workloads import tpch
from octavo.workloads.tpch.duckdb_tpch import known
from octavo.workloads.tpch.queries import chosen


@dataclass(frozen=True, slots=True)
class LoadsRequest:
    """How many loads of each size, how often ANALYZE draws in each, and the settings of the sessions."""

    loads: int
    draws: int
    settings: Settings


@dataclass(frozen=True, slots=True)
class LoadPlans:
    """Of one load, by query: the plan by each draw of ANALYZE, and that with the statistics of the first load."""

    data_block: str
    load: int
    own: Mapping[str, tuple[Shape, ...]]
    carried: Mapping[str, Shape]


def announcement(data_blocks: Sequence[str], levels: Mapping[str, str], request: LoadsRequest) -> str:
    """The planned work, and its approximate time, apart from missing builds."""
    count = len(data_blocks) * request.loads
    seconds = count * tpch.WORKLOAD.seconds_asked({**levels, "phase": "load"})
    return (
        f"{human_count(count, 'load')} of TPC-H at scale {levels['scale']}, one after the other ({request.loads} at "
        f"each of {', '.join(data_blocks)}), with {human_count(request.draws, 'ANALYZE run')} each; loading "
        f"takes about {human_duration(seconds)} (--loads, --data-block and --scale change that)"
    )


def compare_loads(
    builds: Sequence[Build],
    levels: Mapping[str, str],
    request: LoadsRequest,
    settings: Mapping[str, str],
    journal: Journal,
    account: Account,
    tell: Tell,
) -> dict[str, Any]:
    """The document for TPC-H's queries at these levels: one load after the other, each on a server of its own.

    Raises OctavoError when a server refuses.
    """
    texts = {f"q{number}": known().queries[number] for number in chosen(levels)}
    found: list[LoadPlans] = []
    first: PlannerStatistics | None = None
    for build in builds:
        size = build.manifest["data_block"]
        for load in range(1, request.loads + 1):
            tell(f"data block {size}: load {load} of {request.loads}")
            with loaded(build, tpch.WORKLOAD, levels, settings, journal, account) as connection:
                try:
                    plans, own = _own(connection, texts, request)
                    first = first or own
                    restore(connection, first)
                    found.append(LoadPlans(size, load, plans, _plans(connection, texts)))
                except psycopg.Error as error:
                    raise OctavoError(f"the server refuses a query: {one_line(error)}") from error
    facts = {
        "version": builds[0].manifest["version"],
        "scale": levels["scale"],
        "statistics_target": levels["statistics_target"],
        "loads": request.loads,
        "draws": request.draws,
        "settings": dict(request.settings),
    }
    return document(found, facts)


def _own(
    connection: Connection[DictRow], texts: Mapping[str, str], request: LoadsRequest
) -> tuple[dict[str, tuple[Shape, ...]], PlannerStatistics]:
    """The plans by each draw, and the statistics of the first one."""
    set_for_session(connection, request.settings)
    first = read(connection)
    draws = [_plans(connection, texts)]
    for _ in range(request.draws - 1):
        connection.execute(b"ANALYZE")
        draws.append(_plans(connection, texts))
    return {name: tuple(draw[name] for draw in draws) for name in texts}, first


def _plans(connection: Connection[DictRow], texts: Mapping[str, str]) -> dict[str, Shape]:
    return {name: explain(connection, text, {}) for name, text in texts.items()}
