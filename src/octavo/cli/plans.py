"""`octavo plans`: query plans across page sizes."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from octavo.cli.choices import TableFormat

plans = typer.Typer(help="Query plans across page sizes: what the page costs, and what the plan.", no_args_is_help=True)


class Statistics(StrEnum):
    """Whose statistics the planner has at each size."""

    one = "one"
    own = "own"


@plans.callback()
def group() -> None:
    """Query plans across page sizes: what the page costs, and what the plan."""


@plans.command()
def table(
    data_block: Annotated[str, typer.Option(help="Data blocks: 1kB to 32kB, with commas, or all.")] = "8kB,32kB",
    base: Annotated[
        str | None, typer.Option(help="The data block that others are compared with: 8kB, else the first.")
    ] = None,
    queries: Annotated[str, typer.Option(help="TPC-H's queries: all, or numbers with commas.")] = "all",
    scale: Annotated[str, typer.Option(help="TPC-H's scale factor.")] = "0.1",
    statistics: Annotated[
        Statistics, typer.Option(help="All sizes have those of the first one, or each those of its own load.")
    ] = Statistics.one,
    calibration: Annotated[
        Path | None, typer.Option(help="Also the costs that octavo costs calibrate --format json wrote.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Measured runs of each query, plan and size.")] = 3,
    timeout: Annotated[str, typer.Option(help="After so long a run is cut off.")] = "60s",
    tries: Annotated[int, typer.Option(min=1, max=100_000, help="Plans to ask for at most, to force one.")] = 1000,
    shared_buffers: Annotated[str, typer.Option(help="Of each server.")] = "512MB",
    setting: Annotated[
        list[str] | None, typer.Option("-c", "--setting", help="NAME=VALUE for each session; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another order, another search.")] = 1,
    pg: Annotated[str, typer.Option(help="Version: 18 for the newest to be had, or 18.6.")] = "18",
    format: Annotated[TableFormat, typer.Option(help="Text, or JSON.")] = TableFormat.text,
) -> None:
    """Force each plan that is found at one page size at the others, and time all of them, warm, by turns.

    Servers of all sizes are up at once, with TPC-H's tables. A plan is forced by the planner's own settings, found by
    search and checked by the plan's shape; one that cannot be forced is named.

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
    from octavo.query_plans.table import PlanTableRequest
    from octavo.units import parse_duration
    from octavo.workloads import tpch

    specs = data_block_specs(data_block, pg)
    blocks = data_blocks(specs)
    request = PlanTableRequest(
        rounds=rounds, tries=tries, timeout=parse_duration(timeout), seed=seed,
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
