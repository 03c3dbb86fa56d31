"""`octavo watch`: the page sizes of a running server at work, live."""

from typing import Annotated

import typer

from octavo.cli.choices import TableFormat


def watch(
    dsn: Annotated[
        str | None, typer.Option(help="Connection string; default: libpq's environment variables and defaults.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Measure one interval, then exit.")] = False,
    interval: Annotated[str, typer.Option(help="Interval between samples, at least 100ms.")] = "1s",
    format: Annotated[
        TableFormat, typer.Option(help="Output format: a live view, or JSON with one line per sample.")
    ] = TableFormat.text,
) -> None:
    """Watch a live server's memory pages, I/O sizes and WAL.

    It only reads and needs no root; figures that it cannot read are reported. Ctrl-C quits.

    Example: octavo watch --dsn 'host=/run/postgresql dbname=shop' --once
    """
    from octavo.units import duration_option

    seconds = duration_option("--interval", interval, "100ms")

    from octavo.cli.output import console
    from octavo.watch.connect import connect, target_of
    from octavo.watch.live import show_once, show_until_interrupted
    from octavo.watch.snapshot import ServerMonitor
    from octavo.watch.view import view

    with connect(dsn) as connection:
        monitor = ServerMonitor(*target_of(connection), gone=lambda: connection.closed)
        try:
            show = show_once if once else show_until_interrupted
            show(monitor.sample, view, seconds, console(), as_json=format is TableFormat.json)
        finally:
            monitor.close()
