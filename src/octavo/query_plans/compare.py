"""The whole comparison of plans across page sizes: servers, plans, times, and the document that is printed."""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.errors import UsageError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.limits import DEFAULT_BLOCK
from octavo.query_plans.document import document
from octavo.query_plans.servers import servers
from octavo.query_plans.table import PlanTableRequest, Tell, tables
from octavo.units import format_size, size_option
from octavo.workloads import tpch
from octavo.workloads.tpch.duckdb_tpch import known
from octavo.workloads.tpch.queries import chosen


def data_blocks(specs: Sequence[BuildSpec]) -> list[int]:
    """The data blocks in bytes, in the order of the builds. Raises UsageError for fewer than two."""
    if len(specs) < 2:
        raise UsageError("--data-block: name two sizes or more, such as 8kB,32kB")
    return [spec.sizes.data_block for spec in specs]


def base_block(blocks: Sequence[int], base: str | None) -> int:
    """The block that others are compared with: `base`, else PostgreSQL's default, else the first one."""
    if base is None:
        return DEFAULT_BLOCK if DEFAULT_BLOCK in blocks else blocks[0]
    block = size_option("--base", base)
    if block not in blocks:
        raise UsageError(f"--base {base}: it is none of {', '.join(map(format_size, blocks))}")
    return block


def compare_plans(
    builds: Sequence[Build],
    levels: Mapping[str, str],
    request: PlanTableRequest,
    base: int,
    settings: Mapping[str, str],
    journal: Journal,
    account: Account,
    tell: Tell,
    *,
    one_statistics: bool,
) -> dict[str, Any]:
    """The document for TPC-H's queries at these levels, on a server of each build with these settings.

    With `one_statistics` the planner has those of the first build at every size. Raises OctavoError.
    """
    texts = {f"q{number}": known().queries[number] for number in chosen(levels)}
    with servers(
        builds, tpch.WORKLOAD, levels, settings, journal, account, tell, one_statistics=one_statistics
    ) as found:
        made = tables(found, texts, request, tell)
    first = builds[0].manifest["data_block"]
    facts = {
        "version": builds[0].manifest["version"],
        "scale": levels["scale"],
        "statistics": f"those of {first} at every size" if one_statistics else "each load's own",
        "rounds": request.rounds,
        "settings": dict(request.settings),
    }
    return document(made, base, list(request.costs), facts)
