"""`octavo binary`: a program's atomic instructions, required CPU, compiler and flags."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class BinaryFormat(StrEnum):
    """How programs are printed."""

    text = "text"
    json = "json"
    objdump = "objdump"


def binary(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="ELF files, packages (.deb), archives (.a) or directories.")
    ],
    format: Annotated[
        BinaryFormat, typer.Option(help="Output format: text, JSON, or counts as from objdump | sort | uniq -c.")
    ] = BinaryFormat.text,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Details of every program instead of one line each.")
    ] = False,
) -> None:
    """Show a program's atomic instructions, CPU level, compiler.

    For 64-bit Arm: whether it uses LSE always, only on CPUs that have it, or never. For x86-64: the level that it
    requires. Works on any host and on stripped programs. Exit code 2 if a PATH cannot be analysed.

    \b
    Examples:
    octavo binary $(which postgres)
    octavo binary postgresql-17_17.2-1_arm64.deb
    octavo binary --format objdump /usr/local/pgsql/bin/postgres
    """
    from octavo.binary.listing import document, lines
    from octavo.binary.read import Program, read
    from octavo.cli.output import console, print_json
    from octavo.errors import OctavoError

    found: list[Program] = []
    failed: list[OctavoError] = []
    for path in paths:
        try:
            found += read(path)
        except OctavoError as error:
            if len(paths) == 1:
                raise
            print(f"octavo: {error}", file=sys.stderr)
            failed.append(error)
    if format is BinaryFormat.json:
        print_json(document(found))
    elif format is BinaryFormat.objdump:
        for program in found:
            if program.problem:
                print(f"octavo: {program.name} {program.problem}", file=sys.stderr)
                continue
            if len(found) > 1:
                print(f"{program.name}:")
            print("".join(f"{line}\n" for line in lines(program)), end="")
    elif found:
        from octavo.binary.render import show

        show(found, console(), verbose=verbose)
    if failed:
        raise typer.Exit(max(error.exit_code for error in failed))
