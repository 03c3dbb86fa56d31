"""`octavo watch`: the page sizes of a running server at work, live."""

from typing import Annotated

import typer

from octavo.cli.choices import TableFormat


def watch(
    dsn: Annotated[
        str | None, typer.Option(help="Where the server is, as psql takes it; else libpq's variables and defaults.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One look over one interval, then end.")] = False,
    interval: Annotated[str, typer.Option(help="Time between two looks, from 100ms on.")] = "1s",
    format: Annotated[
        TableFormat, typer.Option(help="A live view, or JSON: one line for each look.")
    ] = TableFormat.text,
) -> None:
    """Watch a running server: memory pages, page tables, request sizes, WAL amplification. It only reads.

    Needs no root, and says what it cannot see. Ctrl-C ends it.

    Example: octavo watch --dsn 'host=/run/postgresql dbname=shop' --once
    """
    from octavo.errors import UsageError
    from octavo.units import parse_duration

    seconds = parse_duration(interval)
    if seconds < 0.1:
        raise UsageError(f"--interval {interval}: less than 100ms would measure the looking; write 100ms or more")

    from octavo.cli.output import console
    from octavo.watch.connect import connect, target_of
    from octavo.watch.live import show_once, show_until_interrupted
    from octavo.watch.snapshot import ServerMonitor
    from octavo.watch.view import view

    with connect(dsn) as connection:
        looking = ServerMonitor(*target_of(connection), gone=lambda: connection.closed)
        try:
            show = show_once if once else show_until_interrupted
            show(looking.look, view, seconds, console(), as_json=format is TableFormat.json)
        finally:
            looking.close()
