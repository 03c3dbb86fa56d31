"""Which options were given on the command line: those that a command would ignore are refused."""

from collections.abc import Mapping

import typer

from octavo.errors import UsageError


def given(context: typer.Context) -> dict[str, str]:
    """The options that were given, as they are written, by the names of their parameters."""
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    }


def refuse_before_command(context: typer.Context) -> None:
    """For a group whose command was called. Raises UsageError for options before it, which are the group's own."""
    for option in given(context).values():
        raise UsageError(
            f"{option} before {context.invoked_subcommand} has no effect; write the options of "
            f"{context.command_path} {context.invoked_subcommand} after it"
        )


def refuse_alone(context: typer.Context, needs: Mapping[str, str]) -> None:
    """Raises UsageError for an option that was given without those that it is for: by its parameter's name the options
    that are needed, as the user is to write them."""
    found = given(context)
    for name, needed in needs.items():
        if name in found:
            raise UsageError(f"{found[name]} has no effect without {needed}; add {needed}, or leave {found[name]} out")
