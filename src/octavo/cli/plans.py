"""`octavo plans`: query plans across page sizes."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from octavo.cli.choices import TableFormat

plans = typer.Typer(help="Separate the effects of page size and plan on queries.", no_args_is_help=True)


class Statistics(StrEnum):
    """Whose statistics the planner has at each size."""

    one = "one"
    own = "own"


@plans.callback()
def group() -> None:
    """Separate the effects of page size and plan on queries."""


@plans.command()
def table(
    data_block: Annotated[
        str, typer.Option(help="Data blocks: comma-separated list of 1kB to 32kB, or all.")
    ] = "8kB,32kB",
    base: Annotated[str | None, typer.Option(help="Data block to compare with; default: 8kB, else the first.")] = None,
    queries: Annotated[str, typer.Option(help="TPC-H queries: all, or comma-separated numbers.")] = "all",
    scale: Annotated[str, typer.Option(help="TPC-H scale factor.")] = "0.1",
    statistics: Annotated[
        Statistics, typer.Option(help="one: every size gets the statistics of the first; own: those of its own load.")
    ] = Statistics.one,
    calibration: Annotated[
        Path | None, typer.Option(help="Also use the costs from octavo costs calibrate --format json.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Measured runs of each query, plan and size.")] = 3,
    timeout: Annotated[str, typer.Option(help="Time limit of a run.")] = "60s",
    tries: Annotated[int, typer.Option(min=1, max=100_000, help="Limit on attempts to force a plan.")] = 1000,
    shared_buffers: Annotated[str, typer.Option(help="shared_buffers of each server.")] = "512MB",
    setting: Annotated[
        list[str] | None, typer.Option("-c", "--setting", help="Setting for each session; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order and of the search for plans.")] = 1,
    pg: Annotated[str, typer.Option(help="Version: 18 for the newest available, or 18.6.")] = "18",
    format: Annotated[TableFormat, typer.Option(help="Text, or JSON.")] = TableFormat.text,
) -> None:
    """Force each page size's plans at the other sizes, and time them.

    Servers of all sizes run at the same time, with TPC-H's tables; queries run warm, in random order. A plan is forced
    by planner settings, found by a search, and verified by its shape; plans that cannot be forced are listed.

    Example: octavo plans table --data-block 8kB,32kB --queries 7,8,9
    """
    from octavo.cli.output import console, print_json, tell
    from octavo.cli.progress import built
    from octavo.factor import complete
    from octavo.host.children import server_account
    from octavo.postgres.builds.selection import data_block_specs
    from octavo.postgres.scratch import parse_settings
    from octavo.query_plans.compare import base_block, compare_plans, data_blocks
    from octavo.query_plans.costs import compared
    from octavo.query_plans.render import view
    from octavo.query_plans.statistics import check_version
    from octavo.query_plans.table import PlanTableRequest
    from octavo.units import duration_option
    from octavo.workloads import tpch

    specs = data_block_specs(data_block, pg)
    blocks = data_blocks(specs)
    if statistics is Statistics.one:
        check_version(specs[0].version, "use 18, or --statistics own")
    seconds = duration_option("--timeout", timeout, "1ms")  # for statement_timeout, which counts ms, less is no limit
    request = PlanTableRequest(
        rounds=rounds, tries=tries, timeout=seconds, seed=seed,
        settings={**tpch.WORKLOAD.settings, **parse_settings(setting or [])}, costs=compared(blocks, calibration),
    )  # fmt: skip
    levels = complete(tpch.WORKLOAD.factors, {"scale": scale, "queries": queries})
    compared_with, account = base_block(blocks, base), server_account()
    with built(specs) as (builds, journal):
        document = compare_plans(
            builds, levels, request, compared_with, {"shared_buffers": shared_buffers}, journal, account, tell,
            one_statistics=statistics is Statistics.one,
        )  # fmt: skip
    if format is TableFormat.json:
        print_json(document)
    else:
        console().print(view(document))


@plans.command()
def loads(
    data_block: Annotated[
        str, typer.Option(help="Data blocks: comma-separated list of 1kB to 32kB, or all.")
    ] = "8kB,32kB",
    loads: Annotated[int, typer.Option(min=1, max=100, help="Number of loads of each size.")] = 4,
    draws: Annotated[int, typer.Option(min=1, max=1000, help="Number of ANALYZE runs in each load.")] = 5,
    queries: Annotated[str, typer.Option(help="TPC-H queries: all, or comma-separated numbers.")] = "all",
    scale: Annotated[str, typer.Option(help="TPC-H scale factor.")] = "0.1",
    statistics_target: Annotated[int, typer.Option(min=1, max=10_000, help="default_statistics_target.")] = 100,
    shared_buffers: Annotated[str, typer.Option(help="shared_buffers of each server.")] = "512MB",
    setting: Annotated[
        list[str] | None, typer.Option("-c", "--setting", help="Setting for each session; repeatable.")
    ] = None,
    pg: Annotated[str, typer.Option(help="Version, 18 or later: 18 for the newest available, or 18.6.")] = "18",
    format: Annotated[TableFormat, typer.Option(help="Text, or JSON.")] = TableFormat.text,
) -> None:
    """Test whether sampling by ANALYZE makes plans differ between loads.

    It loads TPC-H several times at each size (by default 4 times at 2 sizes, one load after the other) and compares the
    queries' plans: with each load's own statistics, after further ANALYZE runs, and with one load's statistics copied
    to all. Queries are only explained, not run.

    Example: octavo plans loads --data-block 8kB,32kB --loads 4
    """
    from octavo.cli.output import console, print_json, tell
    from octavo.cli.progress import built
    from octavo.factor import complete
    from octavo.host.children import server_account
    from octavo.postgres.builds.selection import data_block_specs
    from octavo.postgres.scratch import parse_settings
    from octavo.query_plans.loads import LoadsRequest, announcement, compare_loads
    from octavo.query_plans.loads_document import view
    from octavo.query_plans.statistics import check_version
    from octavo.workloads import tpch

    specs = data_block_specs(data_block, pg)
    check_version(specs[0].version, "use 18")
    request = LoadsRequest(loads, draws, {**tpch.WORKLOAD.settings, **parse_settings(setting or [])})
    levels = complete(
        tpch.WORKLOAD.factors, {"scale": scale, "queries": queries, "statistics_target": str(statistics_target)}
    )
    account = server_account()
    tell(announcement([spec.data_block for spec in specs], levels, request))
    with built(specs) as (builds, journal):
        document = compare_loads(builds, levels, request, {"shared_buffers": shared_buffers}, journal, account, tell)
    if format is TableFormat.json:
        print_json(document)
    else:
        console().print(view(document))
