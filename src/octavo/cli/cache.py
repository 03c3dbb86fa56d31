"""`octavo cache ls | rm | limit`: the datasets that are kept between runs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from octavo.cli.choices import TableFormat

if TYPE_CHECKING:
    from octavo.postgres.datasets.cache import Load

cache = typer.Typer(help="See, remove and limit the datasets that are kept between runs.", no_args_is_help=True)


@cache.command("ls")
def list_datasets(
    format: Annotated[TableFormat, typer.Option(help="Print a table, or JSON for programs.")] = TableFormat.text,
) -> None:
    """List the datasets: what they hold, what they take on disk, and when a run used them last.

    Example: octavo cache ls --format json
    """
    from datetime import UTC, datetime

    from octavo.cli.output import print_json
    from octavo.postgres.datasets.cache import is_used, list_loads
    from octavo.postgres.datasets.disk_space import limit
    from octavo.units import human_count, human_size

    loads = list_loads()
    rows: list[dict[str, Any]] = [
        {
            "name": load.name,
            **{key: load.manifest[key] for key in ("version", "data_block", "checksums", "contents", "load", "build")},
            "bytes": load.size,
            "database_bytes": load.manifest["database_bytes"],
            "last_used": datetime.fromtimestamp(load.last_used, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "in_use": is_used(load.name),
            "path": str(load.path),
        }
        for load in loads
    ]
    if format is TableFormat.json:
        print_json(rows)
        return
    if not rows:
        print("no dataset yet; a run makes those that it needs")
        return
    width = max(len(row["name"]) for row in rows)
    print(f"{'name':{width}}  {'data':>4}  {'load':>4}  {'on disk':>7}  {'last used (UTC)':16}  contents")
    for row in rows:
        contents = ", ".join(_short(key, value) for key, value in row["contents"].items())
        notes = f"{'' if row['checksums'] else ', no checksums'}{' (in use)' if row['in_use'] else ''}"
        print(
            f"{row['name']:{width}}  {row['data_block']:>4}  {row['load']:>4}  {human_size(row['bytes']):>7}  "
            f"{row['last_used'][:16].replace('T', ' ')}  {contents}{notes}"
        )
    taken = human_size(sum(load.size for load in loads))
    print(f"{human_count(len(rows), 'dataset')}, {taken} of at most {human_size(limit())}")


@cache.command("rm")
def remove_datasets(
    names: Annotated[list[str] | None, typer.Argument(help="Names, as octavo cache ls shows them.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every dataset.")] = False,
    unused_for: Annotated[str | None, typer.Option(help="Those not used for this long, such as 30d.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove datasets; a run that needs one again loads it again.

    A dataset in use stays, and none goes while a run measures on this host.

    Example: octavo cache rm --unused-for 30d --dry-run
    """
    import sys

    from octavo.errors import OctavoError
    from octavo.host.journal import Journal
    from octavo.host.lock import host_lock
    from octavo.postgres.datasets.cache import is_used, remove
    from octavo.units import human_size

    chosen = _chosen(names or [], everything=all, unused_for=unused_for)
    if dry_run:
        going = [load for load in chosen if not is_used(load.name)]
        for load in chosen:
            print(f"would remove {load.name}" if load in going else f"would keep {load.name}: it is in use")
        freed = human_size(sum(load.size for load in going))
        print(f"{len(going)} of {len(chosen)} would go, {freed} would come free")
        return
    removed = bytes_freed = 0
    with host_lock(), Journal() as journal:
        for load in chosen:
            try:
                bytes_freed += remove(load, journal)
            except OctavoError as error:
                print(f"octavo: kept: {error}", file=sys.stderr)
            else:
                removed += 1
                print(f"removed {load.name}")
    print(f"{removed} of {len(chosen)} removed, {human_size(bytes_freed)} came free")
    if removed < len(chosen):
        raise typer.Exit(1)


@cache.command("limit")
def limit_datasets(
    size: Annotated[str | None, typer.Argument(help="The most they may take, such as 50GB, or default.")] = None,
) -> None:
    """Show or set how much disk the datasets may take together.

    A new dataset that would exceed it makes those go that were used longest ago and that no run needs. By default
    it is half of what the datasets take and the disk has free.

    Example: octavo cache limit 50GB
    """
    from octavo.postgres.datasets import disk_space
    from octavo.postgres.datasets.cache import list_loads
    from octavo.units import human_size, parse_size

    if size is not None:
        disk_space.set_limit(None if size == "default" else parse_size(size))
    taken = sum(load.size for load in list_loads())
    chosen = disk_space.chosen_limit()
    why = "half of what is free to them; set one with octavo cache limit 50GB" if chosen is None else "as set"
    print(f"{human_size(disk_space.limit())} ({why}); the datasets take {human_size(taken)}")
    if chosen is not None and taken > chosen:
        print("the next new dataset makes those go that were used longest ago; octavo cache rm does it now")


def _short(key: str, value: str) -> str:
    """A level that speaks for itself stands alone, a number needs its name, a digest its beginning."""
    if key.endswith("_sha256"):
        return f"{key.removesuffix('_sha256')} {value[:12]}"
    return f"{key} {value}" if value[0].isdigit() else value


def _chosen(names: list[str], *, everything: bool, unused_for: str | None) -> "list[Load]":
    """What is to go. Raises UsageError for an unknown name, and when it is not said in one way what to remove."""
    import time

    from octavo.errors import UsageError
    from octavo.postgres.datasets.cache import by_name, list_loads
    from octavo.units import parse_duration

    if bool(names) + everything + (unused_for is not None) != 1:
        raise UsageError("say which datasets in one way: names, --all or --unused-for 30d")
    if names:
        return [by_name(name) for name in dict.fromkeys(names)]
    longest = parse_duration(unused_for) if unused_for is not None else 0.0
    return [load for load in list_loads() if everything or time.time() - load.last_used >= longest]
