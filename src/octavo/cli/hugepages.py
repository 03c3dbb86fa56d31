"""`octavo hugepages`: the huge pages that a server needs and what they save; allocating, verifying and returning
them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.choices import TableFormat

if TYPE_CHECKING:
    from octavo.hugepages.plan import Situation

hugepages = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Huge pages for a server: plan, apply, verify, undo."
)

_Pgdata = Annotated[Path | None, typer.Option(help="Data directory (or configuration directory) of a stopped cluster.")]
_Bindir = Annotated[
    Path | None,
    typer.Option(help="Directory of the cluster's programs; default: PATH, pg_config, or the packages' directories."),
]
_Dsn = Annotated[str | None, typer.Option(help="Connection string of a running server; '' for libpq's defaults.")]
_Page = Annotated[
    str | None, typer.Option("--page-size", help="Huge page size: 2MB, 1GB …; default: the server's huge_page_size.")
]
_Format = Annotated[TableFormat, typer.Option(help="Text, or JSON for programs.")]


@hugepages.command()
def plan(
    pgdata: _Pgdata = None,
    bindir: _Bindir = None,
    dsn: _Dsn = None,
    page_size: _Page = None,
    connections: Annotated[
        int | None, typer.Option(min=1, help="Connections to predict page tables for; default: max_connections.")
    ] = None,
    format: _Format = TableFormat.text,
) -> None:
    """Show the huge pages a server needs, limits, savings, settings.

    Changes nothing and needs no root. Without --pgdata and --dsn: only the host, for example before initdb.

    \b
    Examples:
    octavo hugepages plan --pgdata /var/lib/pgsql/data
    octavo hugepages plan --dsn 'host=/run/postgresql dbname=shop' --connections 500
    """
    from octavo.cli.output import console, print_json
    from octavo.errors import UsageError
    from octavo.hugepages.plan import document
    from octavo.hugepages.render import print_plan

    if connections is not None and pgdata is None and dsn is None:
        raise UsageError("--connections has no effect without --pgdata or --dsn; add one, or leave --connections out")
    found = document(_situation(pgdata, bindir, dsn, page_size), connections)
    if format is TableFormat.json:
        print_json(found)
    else:
        print_plan(found, console())


@hugepages.command()
def apply(
    pgdata: _Pgdata = None,
    bindir: _Bindir = None,
    dsn: _Dsn = None,
    page_size: _Page = None,
    format: _Format = TableFormat.text,
) -> None:
    """Reserve a server's huge pages until the next boot. Needs root.

    If fewer than needed can be allocated, all are returned and the exit code is 3. A running server uses them after a
    restart; pages that it holds already are counted.

    Example: octavo hugepages apply --pgdata /var/lib/pgsql/data
    """
    from octavo.cli.output import console, print_json
    from octavo.hugepages import apply as pool
    from octavo.hugepages.limits import find_limits
    from octavo.hugepages.pool import read_pool
    from octavo.hugepages.render import print_apply

    situation = _named(pgdata, bindir, dsn, page_size)
    situation.require_here()
    situation.require_takes()
    assert situation.server is not None
    page = situation.page
    done = pool.apply(page, situation.server.pages[page], situation.own(page))
    done["limits"] = [one.as_dict() for one in find_limits(situation.server, read_pool(page), situation.own(page))]
    if format is TableFormat.json:
        print_json(done)
    else:
        print_apply(done, console())


@hugepages.command()
def verify(
    dsn: _Dsn = "",
    page_size: _Page = None,
    format: _Format = TableFormat.text,
) -> None:
    """Check that a server uses huge pages, now and after a restart.

    It only reads, and also shows what octavo doctor finds about huge pages. Exit code 1 if a check is bad. Without
    --dsn: libpq's default server.

    Example: octavo hugepages verify --dsn 'host=/run/postgresql'
    """
    from octavo.cli.output import console, print_json
    from octavo.doctor.examine import rules_of
    from octavo.doctor.subjects import lines
    from octavo.hugepages.render import print_verify
    from octavo.hugepages.verify import document

    found = document(_named(None, None, dsn, page_size))
    found["rules"] = rules_of(dsn, "huge pages")
    if format is TableFormat.json:
        print_json(found)
    else:
        print_verify(found, console())
        for line in lines(found["rules"]):
            print(line)
    if not found["ok"]:
        raise typer.Exit(1)


@hugepages.command()
def undo(format: _Format = TableFormat.text) -> None:
    """Restore the pools to their state before apply. Needs root.

    Pools that somebody else has changed since are left and reported.

    Example: octavo hugepages undo
    """
    from octavo.cli.output import print_json
    from octavo.errors import HostError
    from octavo.hugepages import apply as pool

    done = pool.undo()
    if format is TableFormat.json:
        print_json({"schema_version": 1, "restored": [{"outcome": one.what, "text": one.line} for one in done]})
    elif not done:
        print("nothing to restore")
    for one in done:
        if one.what == "failed":
            raise HostError(one.line)
        if format is TableFormat.text:
            print(one)


def _situation(pgdata: Path | None, bindir: Path | None, dsn: str | None, page_size: str | None) -> "Situation":
    from octavo.hugepages.plan import Situation
    from octavo.units import size_option

    return Situation(pgdata, bindir, dsn, size_option("--page-size", page_size) if page_size else None)


def _named(pgdata: Path | None, bindir: Path | None, dsn: str | None, page_size: str | None) -> "Situation":
    from octavo.errors import UsageError

    if pgdata is None and dsn is None:
        raise UsageError("no server given; use --pgdata for a stopped cluster or --dsn for a running one")
    return _situation(pgdata, bindir, dsn, page_size)
