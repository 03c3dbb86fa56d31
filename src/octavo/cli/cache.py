"""`octavo cache ls | rm | limit`: the datasets and machine images that are kept between runs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from octavo.cli.choices import TableFormat

if TYPE_CHECKING:
    from octavo.postgres.datasets.cache import Load
    from octavo.vm.images import Image

cache = typer.Typer(help="List, remove and limit the datasets kept between runs.", no_args_is_help=True)


@cache.command("ls")
def list_datasets(
    format: Annotated[TableFormat, typer.Option(help="Output format: a table, or JSON.")] = TableFormat.text,
) -> None:
    """List datasets with contents, disk use and last use.

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
        print("no datasets yet; a run makes those that it needs")
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
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Names, as listed by octavo cache ls and octavo vm list."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="All datasets and images.")] = False,
    unused_for: Annotated[
        str | None, typer.Option(help="Datasets and images not used for this long, such as 30d.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
) -> None:
    """Remove datasets and images of emulated machines.

    Runs recreate what they need. Datasets in use are kept, and none is removed while a run measures on this host.

    Example: octavo cache rm --unused-for 30d --dry-run
    """
    import sys

    from octavo.errors import OctavoError
    from octavo.host.journal import Journal
    from octavo.host.lock import host_lock
    from octavo.postgres.datasets.cache import is_used, remove, remove_left_locks
    from octavo.units import human_size
    from octavo.vm import images

    chosen, machines = _chosen(names or [], everything=all, unused_for=unused_for)
    if dry_run:
        going = [load for load in chosen if not is_used(load.name)]
        for load in chosen:
            print(f"would remove {load.name}" if load in going else f"would keep {load.name}: it is in use")
        for image in machines:
            print(f"would remove {image.name}")
        freed = human_size(sum(each.size for each in (*going, *machines)))
        print(f"{len(going) + len(machines)} of {len(chosen) + len(machines)} would be removed, freeing {freed}")
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
        for image in machines:
            bytes_freed += images.remove(image, journal)
            removed += 1
            print(f"removed {image.name}")
        remove_left_locks()
    total = len(chosen) + len(machines)
    print(f"{removed} of {total} removed, {human_size(bytes_freed)} freed")
    if removed < total:
        raise typer.Exit(1)


@cache.command("limit")
def limit_datasets(
    size: Annotated[str | None, typer.Argument(metavar="SIZE", help="Upper limit, such as 50GB, or default.")] = None,
) -> None:
    """Show or set the limit on the datasets' disk space.

    A new dataset that would exceed it evicts the least recently used ones that no run needs. Default: half of the
    datasets' size plus the free disk space.

    Example: octavo cache limit 50GB
    """
    from octavo.postgres.datasets import disk_space
    from octavo.postgres.datasets.cache import list_loads
    from octavo.units import human_size, parse_size

    if size is not None:
        disk_space.set_limit(None if size == "default" else parse_size(size))
    taken = sum(load.size for load in list_loads())
    chosen = disk_space.chosen_limit()
    why = (
        "half of the datasets' size plus the free disk space; set another with octavo cache limit 50GB"
        if chosen is None
        else "as set"
    )
    print(f"{human_size(disk_space.limit())} ({why}); the datasets take {human_size(taken)}")
    if chosen is not None and taken > chosen:
        print("the next new dataset evicts the least recently used ones; octavo cache rm removes datasets now")


def _short(key: str, value: str) -> str:
    """A level as listed: a word alone, a number with its name, a digest shortened."""
    if key.endswith("_sha256"):
        return f"{key.removesuffix('_sha256')} {value[:12]}"
    return f"{key} {value}" if value[0].isdigit() else value


def _chosen(names: list[str], *, everything: bool, unused_for: str | None) -> "tuple[list[Load], list[Image]]":
    """The datasets and the images to remove. Raises UsageError for an unknown name, and unless they are chosen in
    exactly one way."""
    import time

    from octavo.errors import UsageError
    from octavo.postgres.datasets.cache import by_name, list_loads
    from octavo.units import duration_option
    from octavo.vm import images

    if bool(names) + everything + (unused_for is not None) != 1:
        raise UsageError("choose datasets by one of: names, --all, --unused-for 30d")
    if names:
        machines = [images.by_name(name) for name in dict.fromkeys(names) if images.is_name(name)]
        return [by_name(name) for name in dict.fromkeys(names) if not images.is_name(name)], machines
    longest = 0.0 if unused_for is None else duration_option("--unused-for", unused_for, most="36500d")

    def is_going(last_used: float) -> bool:
        return everything or time.time() - last_used >= longest

    return (
        [load for load in list_loads() if is_going(load.last_used)],
        [image for image in images.list_images() if is_going(image.last_used)],
    )
