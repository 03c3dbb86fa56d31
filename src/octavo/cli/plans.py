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
    import sys

    from octavo.cli.build_selection import selected_specs
    from octavo.cli.output import console, print_json
    from octavo.cli.progress import build_progress
    from octavo.errors import UsageError
    from octavo.host.children import server_account
    from octavo.host.journal import Journal
    from octavo.host.lock import host_lock
    from octavo.postgres.builds.make import ensure_builds
    from octavo.postgres.scratch import parse_settings
    from octavo.query_plans.costs import compared
    from octavo.query_plans.document import document
    from octavo.query_plans.places import places
    from octavo.query_plans.render import view
    from octavo.query_plans.table import Request, tables
    from octavo.units import format_size, parse_duration, parse_size
    from octavo.workloads import tpch
    from octavo.workloads.tpch.known import known
    from octavo.workloads.tpch.queries import chosen

    specs = selected_specs(
        data_block=data_block, wal_block="8kB", data_segment="1GB", pg=pg, compiler="gcc", flags=(), options=(),
        asserts=False, debug_symbols=False,
    )  # fmt: skip
    blocks = [parse_size(spec.data_block) for spec in specs]
    if len(set(blocks)) < 2 or len(set(blocks)) < len(blocks):
        raise UsageError("--data-block: name two sizes or more, of one version, such as 8kB,32kB")
    compared_with = parse_size(base) if base else 8192 if 8192 in blocks else blocks[0]
    if compared_with not in blocks:
        raise UsageError(f"--base {base}: it is none of {', '.join(map(format_size, blocks))}")
    given = {"scale": scale, "queries": queries}
    levels = {factor.name: factor.level(given.get(factor.name, factor.default)) for factor in tpch.WORKLOAD.factors}
    request = Request(
        rounds=rounds, tries=tries, timeout=parse_duration(timeout), seed=seed,
        settings={**tpch.WORKLOAD.settings, **parse_settings(setting or [])}, costs=compared(blocks, calibration),
    )  # fmt: skip
    texts = {f"q{number}": known().queries[number] for number in chosen(levels)}

    def tell(text: str) -> None:
        print(f"octavo: {text}", file=sys.stderr, flush=True)

    account = server_account()
    with host_lock(), Journal() as journal:
        with build_progress() as progress:
            builds = ensure_builds(specs, journal, progress=progress)
        with places(
            builds, tpch.WORKLOAD, levels, {"shared_buffers": shared_buffers}, journal, account, tell,
            one_statistics=statistics is Statistics.one,
        ) as found:  # fmt: skip
            made = tables(found, texts, request, tell)
    whose = f"those of {format_size(blocks[0])} at every size" if statistics is Statistics.one else "each load's own"
    facts = {
        "version": builds[0].manifest["version"], "scale": levels["scale"], "statistics": whose, "rounds": rounds,
        "settings": dict(request.settings),
    }  # fmt: skip
    result = document(made, compared_with, list(request.costs), facts)
    if format is TableFormat.json:
        print_json(result)
    else:
        console().print(view(result))
