"""`octavo build`: a PostgreSQL with these block sizes, and what is in the cache."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from octavo.cli.choices import TableFormat

build = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@build.callback()
def make(
    context: typer.Context,
    data_block: Annotated[str, typer.Option(help="Data block (BLCKSZ): 1kB to 32kB.")] = "8kB",
    wal_block: Annotated[str, typer.Option(help="WAL block (XLOG_BLCKSZ): 1kB to 64kB.")] = "8kB",
    pg: Annotated[str, typer.Option(help="Version: 18 for the newest to be had, or 18.6.")] = "18",
    source: Annotated[Path | None, typer.Option(help="A local tarball instead of a fetched one.")] = None,
) -> None:
    """Build PostgreSQL with these block sizes, or say that it is cached, and print its prefix.

    Example: octavo build --data-block 4kB --wal-block 8kB --pg 18
    """
    if context.invoked_subcommand is not None:
        return
    from octavo.cli.progress import build_progress
    from octavo.errors import UsageError
    from octavo.factor import Factor, one_of
    from octavo.postgres.limits import DATA_BLOCKS, MAJOR_VERSIONS, WAL_BLOCKS

    for option, value, allowed in (
        ("--data-block", data_block, DATA_BLOCKS),
        ("--wal-block", wal_block, WAL_BLOCKS),
        ("--pg", pg if pg.isdecimal() else pg.partition(".")[0], MAJOR_VERSIONS),
    ):
        Factor(option, "build", "", "", one_of(*allowed)).level(value)
    if not re.fullmatch(r"\d+(\.\d+)?", pg):
        raise UsageError(f"--pg: {pg!r} is no version; write 18, or a minor one such as 18.6")

    from octavo.host.journal import Journal
    from octavo.postgres.build import BuildSpec, ensure_build, list_builds

    before = {known.name for known in list_builds()}
    with Journal() as journal, build_progress() as progress:
        made = ensure_build(
            BuildSpec(pg, data_block, wal_block),
            journal,
            local=source,
            progress=progress,
            waiting=lambda: print("another process is building it; waiting", file=sys.stderr),
        )
    print("cached" if made.name in before else "built", made.manifest["reported"], file=sys.stderr)
    print(made.prefix)


@build.command("ls")
def list_cache(
    format: Annotated[TableFormat, typer.Option(help="Print a table, or JSON for programs.")] = TableFormat.text,
) -> None:
    """List the builds in the cache.

    Example: octavo build ls --format json
    """
    from octavo.cli.output import print_json
    from octavo.postgres.build import list_builds

    builds = [
        {**{name: made.manifest[name] for name in ("version", "data_block", "wal_block")}, "path": str(made.prefix)}
        for made in list_builds()
    ]
    if format is TableFormat.json:
        print_json(builds)
        return
    if not builds:
        print("no build yet; make one with: octavo build --data-block 4kB")
    for row in builds:
        print(f"{row['version']:6}  data {row['data_block']:>4}  WAL {row['wal_block']:>4}  {row['path']}")
