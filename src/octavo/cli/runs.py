"""`octavo runs`: what was run, newest first."""

from datetime import datetime
from typing import Annotated

import typer

from octavo.cli.choices import TableFormat


def runs(
    format: Annotated[TableFormat, typer.Option(help="Output format: a table, or JSON.")] = TableFormat.text,
) -> None:
    """List the runs, newest first.

    Example: octavo runs --format json
    """
    from octavo.cli.output import print_json
    from octavo.store.address import store_address
    from octavo.store.listing import list_runs

    found = list_runs(store_address())
    if format is TableFormat.json:
        print_json(found)
        return
    if not found:
        print("no runs yet; start one with: octavo run oltp-blocks-demo")
        return
    width = max(len(row["id"]) for row in found)
    print(f"{'run':{width}}  {'started':16}  {'status':11}  valid trials")
    for row in found:
        moment = row["started"]
        started = "unknown" if moment is None else datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")
        print(f"{row['id']:{width}}  {started:16}  {row['status']:11}  {row['ok']} of {row['trials']}")
