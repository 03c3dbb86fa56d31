"""`octavo presets`: the experiments that come with Octavo."""

from typing import Annotated

import typer

presets = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
)


@presets.callback()
def list_presets(context: typer.Context) -> None:
    """List the presets, or print one as TOML to start a plan of your own from.

    Example: octavo presets show oltp-blocks-demo > mine.toml
    """
    if context.invoked_subcommand is not None:
        return
    from octavo.plan.presets import preset_questions

    questions = preset_questions()
    width = max(map(len, questions))
    for name, question in questions.items():
        print(f"{name:{width}}  {question}")


@presets.command("show")
def show(name: Annotated[str, typer.Argument(help="The preset's name.")]) -> None:
    """Print the TOML of a preset.

    Example: octavo presets show oltp-blocks-demo > mine.toml
    """
    from octavo.plan.presets import preset_text

    print(preset_text(name), end="")
