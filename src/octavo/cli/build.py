"""`octavo build`: builds PostgreSQL at the chosen sizes, and tests or packages the builds."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli import build_cache
from octavo.cli.choices import PackageFormat, TableFormat
from octavo.cli.given import refuse_alone, refuse_before_command
from octavo.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from octavo.host.journal import Journal
    from octavo.postgres.builds.cache import Build
    from octavo.postgres.builds.spec import BuildSpec

build = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
build_cache.register(build)


@build.callback()
def make(
    context: typer.Context,
    data_block: Annotated[
        str | None,
        typer.Option(help="Data blocks (BLCKSZ): comma-separated list of 1kB to 32kB, or all.  [default: 8kB]"),
    ] = None,
    wal_block: Annotated[
        str | None,
        typer.Option(help="WAL blocks (XLOG_BLCKSZ): comma-separated list of 1kB to 64kB, or all.  [default: 8kB]"),
    ] = None,
    data_segment: Annotated[str, typer.Option(help="Table segment file size (RELSEG_SIZE): 1GB to 64GB.")] = "1GB",
    pg: Annotated[str, typer.Option(help="Versions, comma-separated: 18 for the newest available, or 18.6.")] = "18",
    matrix: Annotated[
        bool,
        typer.Option(
            "--matrix", help="Every data block with every WAL block; --data-block and --wal-block limit them."
        ),
    ] = False,
    source: Annotated[Path | None, typer.Option(help="A tarball, source tree or git checkout of your own.")] = None,
    trust_checksum: Annotated[
        bool,
        typer.Option(
            "--trust-checksum", help="For a release unknown to Octavo, trust the sha256 published next to it."
        ),
    ] = False,
    compiler: Annotated[str, typer.Option(help="C compilers on the PATH, comma-separated.")] = "gcc",
    flags: Annotated[list[str] | None, typer.Option(help="Extra C compiler flag, such as -O3; repeatable.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Extra option for meson setup or configure; repeatable.")
    ] = None,
    asserts: Annotated[bool, typer.Option("--asserts", help="Assertion builds, with debug symbols.")] = False,
    debug_symbols: Annotated[bool, typer.Option("--debug-symbols", help="Keep debug symbols.")] = False,
    traced: Annotated[
        bool, typer.Option("--traced", help="Build servers that record page accesses for octavo trace (16 or later).")
    ] = False,
    prove: Annotated[
        int, typer.Option(min=0, help="Rebuild this many builds from scratch and compare every file.")
    ] = 0,
    smoke_test: Annotated[
        bool, typer.Option("--smoke-test", help="Run initdb, a server, pgbench and pg_checksums of each build.")
    ] = False,
    crash_test: Annotated[
        bool,
        typer.Option(
            "--crash-test", help="Kill a server of each build while it writes, and check the data after recovery."
        ),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Run PostgreSQL's own tests on each build.")] = False,
    suite: Annotated[
        str,
        typer.Option(
            help="Suite for --check; all: installation, regression, isolation, recovery (docs/builds.md has more)."
        ),
    ] = "all",
    check_operations: Annotated[
        bool, typer.Option("--check-operations", help="Test backup, replication, upgrade and migration on each build.")
    ] = False,
    package: Annotated[PackageFormat | None, typer.Option(help="Make an installable package of each build.")] = None,
    output: Annotated[Path, typer.Option(help="Directory for packages.")] = Path(),
    with_extension: Annotated[
        Path | None, typer.Option(help="Build the PGXS extension in this directory against each build.")
    ] = None,
    format: Annotated[TableFormat, typer.Option(help="Output format of the checks.")] = TableFormat.text,
) -> None:
    """Build PostgreSQL at any block size, into a cache.

    Prints the prefix of each build. Every combination of the lists is built; builds that differ only in their sizes
    share one source tree.

    \b
    Examples:
    octavo build --data-block 4kB
    octavo build --matrix --prove 3
    octavo build --data-block all --check
    """
    if context.invoked_subcommand is not None:
        refuse_before_command(context)
        return
    _refuse_ignored(context, check=check, check_operations=check_operations, package=package is not None)
    if format is TableFormat.json and (check + check_operations > 1 or package is not None or with_extension):
        raise UsageError(
            "--format json prints one document: give one of --check and --check-operations, without --package and "
            "--with-extension"
        )
    from octavo.cli.progress import build_progress
    from octavo.host.journal import Journal
    from octavo.postgres.builds.make import ensure_builds
    from octavo.postgres.builds.selection import selected_specs
    from octavo.postgres.sources.upstream import trusts_published
    from octavo.units import human_duration

    trusts_published.set(trust_checksum)
    unnamed = "all" if matrix else "8kB"
    specs = selected_specs(
        data_block=data_block or unnamed,
        wal_block=wal_block or unnamed,
        data_segment=data_segment,
        pg=pg,
        compiler=compiler,
        flags=flags or [],
        options=option or [],
        asserts=asserts,
        debug_symbols=debug_symbols or asserts,
        traced=traced,
        own_source=source is not None,
    )
    if check:
        from octavo.check.run import check_versions
        from octavo.cli.build_check import suites_of

        check_versions((spec.version for spec in specs), suites_of(suite))
    if package is not None:
        from octavo.packaging import check_compiler

        for spec in specs:
            check_compiler(spec.compiler)
    if smoke_test or crash_test or check or check_operations or with_extension:
        _check_runs(specs)
    if with_extension is not None:
        from octavo.postgres.extension import check_source

        check_source(with_extension)
    started = time.monotonic()
    made: list[str] = []
    with Journal() as journal:
        with build_progress() as progress:
            builds = ensure_builds(
                specs,
                journal,
                local=source,
                progress=progress,
                waiting=lambda: _print_progress("waiting for another process that is making this build"),
                ready=lambda ready: made.append(ready.name),
                notice=_print_progress,
            )
        if len(builds) == 1:
            _print_progress(f"{'built' if made else 'cached'} {builds[0].manifest['reported']}")
        else:
            _print_progress(
                f"{len(made)} built in {human_duration(time.monotonic() - started)}, {len(builds) - len(made)} cached"
            )
        code = 0
        if prove:
            code |= _prove(builds, specs, prove, source, journal)
        if smoke_test:
            code |= _smoke_test(builds, journal)
        if crash_test:
            code |= _crash_test(builds, journal)
        if with_extension is not None:
            from octavo.cli.build_extension import with_extension as build_extension

            build_extension(builds, with_extension, journal)
        if check:
            from octavo.cli.build_check import check as run_check

            code |= run_check(builds, journal, format, suite, source)
        if check_operations:
            from octavo.cli.build_operations import check_operations as run_operations

            code |= run_operations(builds, journal, format)
        if package is not None:
            from octavo.cli.build_package import package as make_package

            make_package(builds, package.value, output, journal, source)
    if not (check or check_operations or package):
        for each in builds:
            print(each.prefix)
    if code:
        raise typer.Exit(code)


def _refuse_ignored(context: typer.Context, *, check: bool, check_operations: bool, package: bool) -> None:
    """Raises UsageError for an option of a check or package that was not requested."""
    needs = {
        "suite": "" if check else "--check",
        "format": "" if check or check_operations else "--check or --check-operations",
        "output": "" if package else "--package",
    }
    refuse_alone(context, {name: needed for name, needed in needs.items() if needed})


def _check_runs(specs: "list[BuildSpec]") -> None:
    """Raises HostError when a test would run builds that this host cannot run."""
    from octavo.errors import HostError
    from octavo.postgres.builds.cross import cannot_run

    for spec in specs:
        if why := cannot_run(spec.compiler):
            raise HostError(f"{why}; build without tests, or run script/on-arm")


def _prove(builds: "list[Build]", specs: "list[BuildSpec]", count: int, source: Path | None, journal: "Journal") -> int:
    """Compares randomly drawn builds with builds from scratch, and prints each result. Returns the exit code: 1 when
    one differs."""
    from octavo.cli.progress import build_progress
    from octavo.postgres.builds.prove import draw, prove, replace_derived
    from octavo.units import human_duration

    refuted = False
    for spec in draw(specs, count):
        began = time.monotonic()
        with build_progress() as progress:
            proof = prove(spec, journal, local=source, progress=progress)
        if proof.holds:
            took = human_duration(time.monotonic() - began)
            _print_progress(
                f"proved {proof.name}: {proof.files} files, identical to those of a build from scratch ({took})"
            )
        else:
            refuted = True
            _print_progress(f"REFUTED {proof.name}: {', '.join(proof.differing)} differ from a build from scratch")
    if refuted:
        with build_progress() as progress:
            replaced = replace_derived(specs, journal, local=source, progress=progress)
        _print_progress(
            f"{replaced} builds from a shared tree were discarded and rebuilt from scratch; please report this"
        )
    return int(refuted)


def _smoke_test(builds: "list[Build]", journal: "Journal") -> int:
    from octavo.host.children import server_account
    from octavo.postgres.smoke import smoke_test

    account = server_account()

    def test(build: "Build") -> str:
        smoke_test(build, journal, account)
        return "initdb, start, pgbench and pg_checksums work"

    return _test_each(builds, test)


def _crash_test(builds: "list[Build]", journal: "Journal") -> int:
    from octavo.host.children import server_account
    from octavo.postgres.crash_test import crash_test

    account = server_account()

    def test(build: "Build") -> str:
        outcome = crash_test(build, journal, account)
        return (
            f"killed while it wrote; all {outcome.acknowledged:,} acknowledged commits survived, the sums agree "
            f"({outcome.found:,} lines, recovered in {outcome.recovery_seconds:.1f} s)"
        )

    return _test_each(builds, test)


def _test_each(builds: "list[Build]", test: "Callable[[Build], str]") -> int:
    """Tests every build and prints each result. Returns the exit code: 1 when one failed. Raises HostError when this
    host cannot run the test."""
    from octavo.errors import HostError, OctavoError

    code = 0
    for build in builds:
        try:
            _print_progress(f"{build.name}: {test(build)}")
        except HostError:
            raise
        except OctavoError as error:
            _print_progress(f"octavo: {error}")
            code = 1
    return code


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr)
