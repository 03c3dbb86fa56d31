"""`octavo host`: the page stack of this machine."""

from typing import Annotated

import typer

from octavo.cli.choices import TableFormat


def host(
    format: Annotated[TableFormat, typer.Option(help="Print a table, or JSON for programs.")] = TableFormat.text,
) -> None:
    """Show every page size of this machine between a CPU and its device, for the place where Octavo keeps its data.

    Example: octavo host --format json
    """
    from octavo.cli.output import console, print_json
    from octavo.home import octavo_home
    from octavo.host.facts import host_facts

    place = octavo_home()
    while not place.exists():
        place = place.parent
    facts = host_facts(place)
    if format is TableFormat.json:
        print_json({"schema_version": 1, **facts})
        return
    from rich.table import Table

    from octavo.units import human_size

    print(
        f"{facts['hostname']}: {facts['kernel']}, {facts['cores']} cores, {human_size(facts['memory_bytes'])} of memory"
    )
    print(f"{facts['cpu']}; virtualization: {facts['virtualization']}")
    table = Table("layer", "size", "detail", box=None, pad_edge=False)
    for layer in facts["page_stack"]:
        table.add_row(layer["layer"], layer["value"], layer["detail"])
    console().print(table)
