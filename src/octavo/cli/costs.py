"""`octavo costs`: measures the planner's cost settings on this device, at each data block."""

from enum import StrEnum
from typing import Annotated

import typer

from octavo.cli.choices import TableFormat

costs = typer.Typer(help="Measure the planner's cost settings.", no_args_is_help=True)


class CacheState(StrEnum):
    """Where pages are found."""

    cold = "cold"
    warm = "warm"


@costs.callback()
def group() -> None:
    """Measure the planner's cost settings."""


@costs.command()
def calibrate(
    context: typer.Context,
    dsn: Annotated[
        str | None, typer.Option(help="Connection string of your server, instead of a scratch server.")
    ] = None,
    data_block: Annotated[str, typer.Option(help="Data blocks: comma-separated list of 1kB to 32kB, or all.")] = "8kB",
    pg: Annotated[str, typer.Option(help="Version: 18 for the newest available, or 18.6.")] = "18",
    cache: Annotated[
        CacheState, typer.Option(help="cold: pages come from the device; warm: from shared buffers.")
    ] = CacheState.cold,
    device: Annotated[
        str, typer.Option(help="native: this machine's device; or with limits: hdd, gp3:3000/125, iops=50,mbps=4.")
    ] = "native",
    size: Annotated[str, typer.Option(help="Size of each of the two tables for cold reads.")] = "64MB",
    rounds: Annotated[int, typer.Option(min=2, max=100, help="Runs of each query.")] = 5,
    format: Annotated[TableFormat, typer.Option(help="Text, or JSON.")] = TableFormat.text,
) -> None:
    """Measure the planner's costs and print the settings for them.

    Starts a scratch server for each data block, building PostgreSQL if needed. With --dsn it creates a database
    octavo_costs_… for its tables and drops it; --cache cold then needs the server on this host.

    Example: octavo costs calibrate --data-block 8kB,32kB --device hdd
    """
    from octavo.cli.given import given
    from octavo.cli.output import console, print_json, tell
    from octavo.costs.calibrate import CalibrationRequest, calibrate_builds, calibrate_server, check_size
    from octavo.costs.render import view
    from octavo.errors import UsageError
    from octavo.knobs.volume_types import check_device

    try:
        level = check_device(device)
    except UsageError as error:
        raise UsageError(f"--device {device}: {error}") from None
    request = CalibrationRequest(check_size("--size", size), rounds, cache is CacheState.cold)
    options = given(context)
    if "size" in options and not request.cold:
        raise UsageError("--size has no effect with --cache warm; leave it out")
    if dsn is not None:
        own = {option for name, option in options.items() if name in ("data_block", "device", "pg")}
        if own:
            raise UsageError(
                f"the server of --dsn has its own device, data block and version; leave out {', '.join(sorted(own))}"
            )
        document = calibrate_server(dsn, request, tell)
    else:
        from octavo.cli.progress import built
        from octavo.host.children import server_account
        from octavo.postgres.builds.selection import data_block_specs

        specs, account = data_block_specs(data_block, pg), server_account()
        with built(specs) as (builds, journal):
            document = calibrate_builds(builds, request, level, journal, account, tell)
    if format is TableFormat.json:
        print_json(document)
    else:
        console().print(view(document))
