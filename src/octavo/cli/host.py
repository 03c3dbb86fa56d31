"""`octavo host`: the page stack of this machine, causes of disturbed measurements, and restoring the host."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octavo.cli.choices import TableFormat
from octavo.cli.given import refuse_before_command

if TYPE_CHECKING:
    from octavo.host.checks.base import CheckFinding
    from octavo.host.disks import Disk
    from octavo.postgres.neighbours import Neighbours

host = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@host.callback()
def show(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Check what would disturb a measurement now, and how to fix it.")
    ] = False,
    format: Annotated[TableFormat, typer.Option(help="Output format: a table, or JSON.")] = TableFormat.text,
) -> None:
    """Show every page size of this machine, and how they interact.

    Filesystem and device are those of OCTAVO_HOME. With --check: what would disturb a measurement here; exit code 1 if
    something does.

    \b
    Examples:
    octavo host --check
    octavo host restore
    """
    if context.invoked_subcommand is not None:
        refuse_before_command(context)
        return
    from octavo.home import octavo_home

    place = octavo_home()
    while not place.exists():
        place = place.parent
    if check:
        _check(place, format)
    else:
        _show(place, format)


@host.command()
def restore(
    format: Annotated[TableFormat, typer.Option(help="Output format: lines, or JSON.")] = TableFormat.text,
) -> None:
    """Undo what killed commands changed or started on this host.

    Values that somebody else has changed since, journals that others could have written, and damaged entries are left
    and reported. Every other command does the same at its start. Exit code 1 if something could not be restored; it is
    tried again next time.

    Example: octavo host restore
    """
    from octavo.cli.output import print_json
    from octavo.host.journal import restore as restore_host

    done = restore_host()
    if format is TableFormat.json:
        print_json({"schema_version": 1, "restored": [{"outcome": one.what, "text": one.line} for one in done]})
    else:
        for one in done:
            print(one)
        if not done:
            print("nothing to restore")
    if any(one.what == "failed" for one in done):
        raise typer.Exit(1)


def _check(place: Path, format: TableFormat) -> None:
    from octavo.cli.output import console, print_json
    from octavo.host.checks import check_host, disturbing

    found = check_host(place)
    disturbed = bool(disturbing(found))
    if format is TableFormat.json:
        print_json({"schema_version": 1, "disturbed": disturbed, "checks": [one.as_dict() for one in found]})
    else:
        from rich.table import Table

        out = console()
        out.print(_summary(found))
        print()
        table = Table("check", "result", "found", box=None, pad_edge=False)
        for one in found:
            table.add_row(one.check, one.severity, one.found)
        out.print(table)
        for one in found:
            if one.why:
                out.print(f"\n{one.check}: {one.why.rstrip('.')}.")
                if one.fix:  # on a line of its own, which can be copied
                    out.print(f"  To do: {one.fix}", soft_wrap=True)
    if disturbed:
        raise typer.Exit(1)


def _summary(found: "list[CheckFinding]") -> str:
    """The first line: whether a measurement would be disturbed, and by what.

    >>> from octavo.host.checks.base import CheckFinding
    >>> _summary([CheckFinding("swap", "fine", "none"), CheckFinding("turbo", "unknown", "not reported")])
    'nothing found that would disturb a measurement here; unknown: turbo'
    """
    bad = ", ".join(one.check for one in found if one.severity == "disturbs")
    unknown = ", ".join(one.check for one in found if one.severity == "unknown")
    text = f"disturbs a measurement here: {bad}" if bad else "nothing found that would disturb a measurement here"
    return f"{text}; unknown: {unknown}" if unknown else text


def _show(place: Path, format: TableFormat) -> None:
    from octavo.cli.output import print_json
    from octavo.doctor.collect.host import host_facts as doctor_facts
    from octavo.doctor.facts import Facts
    from octavo.doctor.subjects import lines, rules_on
    from octavo.host.disks import disks
    from octavo.host.facts import host_facts
    from octavo.host.page_stack import page_stack
    from octavo.postgres.neighbours import neighbours

    facts, found = host_facts(place), disks()
    effects, rules = neighbours(page_stack(place)), rules_on("host", Facts(doctor_facts()))
    if format is TableFormat.json:
        print_json(
            {
                "schema_version": 1,
                **facts,
                "neighbours": [one.as_dict() for one in effects],
                "devices": [one.as_dict() for one in found],
                "rules": rules,
            }
        )
        return
    _print_stack(facts)
    _print_effects(effects)
    _print_devices(found)
    for line in lines(rules):
        print(line)


def _print_stack(facts: dict[str, Any]) -> None:
    from octavo.cli.output import console
    from octavo.units import human_size

    print(
        f"{facts['hostname']}: {facts['kernel']}, {facts['cores']} cores, {human_size(facts['memory_bytes'])} of memory"
    )
    print(f"{facts['cpu']}; virtualization: {facts['virtualization']}")
    options = ", ".join(f"{name}={value}" for name, value in facts["kernel_page_configuration"].items())
    print(facts["distribution"])
    console().print(f"kernel options for pages: {options or 'not shown by this kernel'}")
    rows = [(layer["layer"], layer["value"], layer["detail"]) for layer in facts["page_stack"]]
    _print_table("The page stack", ("layer", "size", "detail"), rows)


def _print_effects(effects: "list[Neighbours]") -> None:
    from rich.padding import Padding

    from octavo.cli.output import console

    out = console()
    print("\nHow they interact")
    for one in effects:
        out.print(f"{' and '.join(one.layers)}:")
        out.print(Padding(one.effect, (0, 0, 0, 2)))


def _print_devices(found: "list[Disk]") -> None:
    from octavo.units import format_size, human_size

    def size(value: int | None) -> str:
        return "–" if value is None else format_size(value)

    rows = [
        (
            one.name,
            human_size(one.size_bytes),
            f"{size(one.logical_sector_bytes)}, {size(one.physical_sector_bytes)}",
            size(one.readahead_bytes),
            size(one.largest_request_bytes),
            one.scheduler or "–",
            ", ".join(one.mounted_at) or "–",
        )
        for one in found
    ]
    columns = ("device", "size", "sectors", "readahead", "largest request", "scheduler", "mounted at")
    _print_table("Devices", columns, rows)


def _print_table(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table

    from octavo.cli.output import console

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    print(f"\n{title}")
    console().print(table)
