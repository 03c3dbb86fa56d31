"""`octavo build ls | rm | path | exec | env`: listing, removing and using cached builds."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from octavo.cli.choices import TableFormat

if TYPE_CHECKING:
    from octavo.postgres.builds.cache import Build
    from octavo.postgres.builds.spec import BuildSpec

_DEFAULTS = ("8kB", "8kB", "18")
DataBlock = Annotated[str, typer.Option(help="Data block (BLCKSZ): 1kB to 32kB.")]
WalBlock = Annotated[str, typer.Option(help="WAL block (XLOG_BLCKSZ): 1kB to 64kB.")]
Version = Annotated[str, typer.Option(help="Version: 18 for the newest available, or 18.6.")]
Name = Annotated[str | None, typer.Option(help="A build by its name in octavo build ls, instead of sizes and version.")]


def register(group: typer.Typer) -> None:
    """Adds the verbs of this file to `octavo build`."""
    group.command("ls")(list_cache)
    group.command("rm")(remove_builds)
    group.command("path")(print_path)
    group.command("env")(print_environment)
    # What follows the program is the program's, with or without a -- before it.
    group.command("exec", context_settings={"allow_interspersed_args": False})(execute)


def checked_spec(
    data_block: str, wal_block: str, pg: str, name: str | None = None, *, any_version: bool = False
) -> "BuildSpec":
    """The one spec of these options. Raises UsageError for a size or version that does not exist, for several, or for
    one that is combined with the name of a build. `any_version`: also one that only a user's own source has."""
    from octavo.errors import UsageError
    from octavo.postgres.builds.selection import selected_specs

    if name is not None and (data_block, wal_block, pg) != _DEFAULTS:
        raise UsageError(f"--name {name} names one build; leave out --data-block, --wal-block and --pg")
    specs = selected_specs(
        data_block=data_block,
        wal_block=wal_block,
        data_segment="1GB",
        pg=pg,
        compiler="gcc",
        flags=(),
        options=(),
        asserts=False,
        debug_symbols=False,
        own_source=any_version,
    )
    if len(specs) != 1:
        raise UsageError(f"{len(specs)} builds match; name one data block, one WAL block and one version")
    return specs[0]


def list_cache(
    format: Annotated[TableFormat, typer.Option(help="Output format: a table, or JSON.")] = TableFormat.text,
) -> None:
    """List cached builds with sizes, extensions, disk use, last use.

    Example: octavo build ls --format json
    """
    from datetime import UTC, datetime

    from octavo.cli.output import print_json
    from octavo.postgres.builds.cache import list_builds
    from octavo.postgres.builds.usage import size_together, usage_of
    from octavo.postgres.extension import installed_extensions
    from octavo.units import human_count, human_size

    builds = list_builds()
    rows: list[dict[str, Any]] = []
    for build in builds:
        usage = usage_of(build)
        rows.append(
            {
                **{name: build.manifest[name] for name in ("version", "data_block", "wal_block", "data_segment")},
                "compiler": build.manifest["compiler_command"],
                "asserts": bool({"-Dcassert=true", "--enable-cassert"} & {*build.manifest["options"]}),
                "name": build.name,
                "path": str(build.prefix),
                "bytes": usage.size,
                "bytes_shared": usage.shared,
                "last_used": datetime.fromtimestamp(usage.last_used, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "extensions": [
                    {**{key: found[key] for key in ("name", "version")}, "problem": found.get("problem")}
                    for found in installed_extensions(build)
                ],
            }
        )
    if format is TableFormat.json:
        print_json(rows)
        return
    if not rows:
        print("no builds yet; make one with: octavo build --data-block 4kB")
        return
    print(f"{'version':7}  {'data':>4}  {'WAL':>4}  {'on disk':>7}  {'shared':>7}  {'last used (UTC)':16}  path")
    for row in rows:
        unusual = [
            *([row["compiler"]] if row["compiler"] != "gcc" else []),
            *([f"segments of {row['data_segment']}"] if row["data_segment"] != "1GB" else []),
            *(["assertions"] if row["asserts"] else []),
            *(
                f"{found['name']} {found['version']}{' (does not work)' if found['problem'] else ''}"
                for found in row["extensions"]
            ),
        ]
        print(
            f"{row['version']:7}  {row['data_block']:>4}  {row['wal_block']:>4}  {human_size(row['bytes']):>7}  "
            f"{human_size(row['bytes_shared']):>7}  {row['last_used'][:16].replace('T', ' ')}  {row['path']}"
            + (f"  with {', '.join(unusual)}" if unusual else "")
        )
    print(f"{human_count(len(rows), 'build')}, {human_size(size_together(builds))} on disk; shared files counted once")


def remove_builds(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Names, as listed by octavo build ls.")
    ] = None,
    data_block: Annotated[str | None, typer.Option(help="Builds with this data block.")] = None,
    wal_block: Annotated[str | None, typer.Option(help="Builds with this WAL block.")] = None,
    pg: Annotated[str | None, typer.Option(help="Builds of this version: 18, or 18.6.")] = None,
    unused_for: Annotated[str | None, typer.Option(help="Builds not used for this long, such as 30d.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
) -> None:
    """Remove builds by name, or those that match all conditions.

    Builds with running processes are kept, and none is removed while a run measures on this host.

    Example: octavo build rm --unused-for 30d --dry-run
    """
    import sys

    from octavo.errors import OctavoError
    from octavo.host.journal import Journal
    from octavo.host.lock import host_lock
    from octavo.postgres.builds import usage
    from octavo.units import duration_option, human_size

    checked_spec(data_block or "8kB", wal_block or "8kB", pg or "18", any_version=True)
    chosen = usage.choose(
        [name.rstrip("/").rpartition("/")[2] for name in names or []],
        version=pg,
        data_block=data_block,
        wal_block=wal_block,
        unused_seconds=None if unused_for is None else duration_option("--unused-for", unused_for, most="36500d"),
    )
    if dry_run:
        for build in chosen:
            pid = usage.running_from(build)
            print(f"would keep {build.name}: process {pid} runs from it" if pid else f"would remove {build.name}")
        removable = [build for build in chosen if not usage.running_from(build)]
        print(f"{len(removable)} of {len(chosen)} would be removed, freeing {human_size(usage.size_freed(removable))}")
        return
    freed = kept = 0
    with host_lock(), Journal() as journal:
        for build in chosen:
            try:
                freed += usage.remove(build, journal)
            except OctavoError as error:
                kept += 1
                print(f"octavo: kept: {error}", file=sys.stderr)
            else:
                print(f"removed {build.name}")
    print(f"{len(chosen) - kept} of {len(chosen)} removed, {human_size(freed)} freed")
    if kept:
        raise typer.Exit(1)


def print_path(
    data_block: DataBlock = "8kB", wal_block: WalBlock = "8kB", pg: Version = "18", name: Name = None
) -> None:
    """Print the prefix of a cached build.

    Example: ls $(octavo build path --data-block 4kB)/bin
    """
    print(_chosen(data_block, wal_block, pg, name).prefix)


def print_environment(
    data_block: DataBlock = "8kB", wal_block: WalBlock = "8kB", pg: Version = "18", name: Name = None
) -> None:
    """Print a shell line that puts a build's programs on the PATH.

    Example: eval "$(octavo build env --data-block 4kB)"
    """
    import shlex

    build = _chosen(data_block, wal_block, pg, name)
    _warn_root("what that shell finds first", build)
    print(f'export PATH={shlex.quote(str(build.prefix / "bin"))}:"$PATH"')


def execute(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, after --.", metavar="COMMAND")],
    data_block: DataBlock = "8kB",
    wal_block: WalBlock = "8kB",
    pg: Version = "18",
    name: Name = None,
) -> None:
    """Run a program with a build's programs first on the PATH.

    The exit code is the program's. It runs with your privileges: as root, use only builds and extensions from trusted
    sources.

    Example: octavo build exec --data-block 4kB -- psql -h /tmp -c 'show block_size'
    """
    from octavo.host.foreground import become
    from octavo.postgres.builds.usage import user_environment

    build = _chosen(data_block, wal_block, pg, name)
    _warn_root(command[0], build)
    become(command, user_environment(build))


def _warn_root(what: str, build: "Build") -> None:
    """Warns root of programs in the build that are not PostgreSQL's."""
    import os
    import sys

    from octavo.postgres.builds.usage import not_postgresqls

    if os.geteuid() == 0 and (foreign := not_postgresqls(build)):
        print(f"{what} runs as root, and the build has {', '.join(foreign)}", file=sys.stderr)


def _chosen(data_block: str, wal_block: str, pg: str, name: str | None) -> "Build":
    """The cached build, noted as used. Raises OctavoError with the command that makes it."""
    from octavo.errors import OctavoError
    from octavo.postgres.builds import usage

    spec = checked_spec(data_block, wal_block, pg, name)
    build = usage.find_cached(spec, name)
    if build is None:
        raise OctavoError(
            f"{spec} is not in the cache; make it with: "
            f"octavo build --data-block {data_block} --wal-block {wal_block} --pg {pg}"
        )
    usage.note_use(build)
    return build
