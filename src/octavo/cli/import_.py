"""`octavo import`: imports results measured elsewhere as a run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.choices import TableFormat

if TYPE_CHECKING:
    from octavo.imports.run import Imported

import_ = typer.Typer(
    help="Import results measured elsewhere as a run.",
    no_args_is_help=True,
)

_Name = Annotated[str | None, typer.Option("--name", help="Name of the run; default: that of the file or directory.")]
_Format = Annotated[TableFormat, typer.Option("--format", help="Output format.")]


@import_.command("vondra-tpch")
def vondra_tpch(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory with queries.csv, load.csv and size.csv.")
    ],
    name: _Name = None,
    format: _Format = TableFormat.text,
) -> None:
    """Import published TPC-H results of data and WAL blocks.

    Example: octavo import vondra-tpch i5/20220329
    """
    from octavo.imports.vondra_tpch import read

    _save(read(directory, named=name), format)


@import_.command("vondra-pgbench")
def vondra_pgbench(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The results.csv of one series.")],
    name: _Name = None,
    format: _Format = TableFormat.text,
) -> None:
    """Import published pgbench results of data and WAL blocks.

    Example: octavo import vondra-pgbench i5/20220414-no-fpw/results.csv
    """
    from octavo.imports.vondra_pgbench import read

    _save(read(file, named=name), format)


@import_.command("percona-thp")
def percona_thp(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory with pgbench-tpcb and sysbench-tpcc.")
    ],
    name: _Name = None,
    format: _Format = TableFormat.text,
) -> None:
    """Import published results of transparent huge pages.

    Example: octavo import percona-thp THP-POSTGRESQL-2019/results
    """
    from octavo.imports.percona_thp import read

    _save(read(directory, named=name), format)


@import_.command("csv")
def csv(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file with one line per measurement.")],
    map: Annotated[Path, typer.Option("--map", help="A TOML file that describes its columns (docs/report.md).")],
    name: _Name = None,
    format: _Format = TableFormat.text,
) -> None:
    """Import a table of results, described by a TOML file.

    Example: octavo import csv results.csv --map columns.toml
    """
    from octavo.imports.mapped import read

    _save(read(file, map, named=name), format)


def _save(imported: "Imported", format: TableFormat) -> None:
    """Stores the run, and prints what was imported and what was left out."""
    from octavo.imports.run import save
    from octavo.store.address import store_address
    from octavo.units import human_count

    run = save(imported, store_address())
    problems = [problem for source in imported.sources for problem in source.problems]
    for problem in problems:
        print(f"octavo: {problem}", file=sys.stderr)
    invalid = [trial for trial in imported.trials if trial.status == "invalid"]
    rows = sum(source.rows for source in imported.sources)
    if format is TableFormat.json:
        from octavo.cli.output import print_json

        by_name = {"run": run, "rows": rows, "problems": problems}
        print_json(by_name | {"trials": len(imported.trials), "invalid": len(invalid)})
        return
    trials, cells = human_count(len(imported.trials), "trial"), human_count(len(imported.cells), "cell")
    print(f"{run}: {trials} of {cells}, from {human_count(rows, 'row')}")
    if problems:
        print(f"{human_count(len(problems), 'row')} left out, listed above")
    if invalid:
        print(f"{len(invalid)} of the trials kept as invalid; the first: {invalid[0].reason}")
    print("show it with: octavo report last")
