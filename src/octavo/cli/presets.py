"""`octavo presets`: the experiments that come with Octavo."""

import sys
from typing import Annotated

import typer

presets = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
)


@presets.callback()
def list_presets(context: typer.Context) -> None:
    """List presets, their sizes, and what this host lacks for them.

    Example: octavo presets show oltp-blocks-demo > mine.toml
    """
    if context.invoked_subcommand is not None:
        return
    from octavo.lab.runnable import lacking
    from octavo.plan.cells import make_cells
    from octavo.plan.presets import all_presets
    from octavo.units import human_count

    installable = False
    for preset in all_presets():
        print(f"{preset.name}: {preset.question}")
        for size, plan in preset.plans.items():
            loads = human_count(plan.loads, "load")
            most = "" if plan.last_round is None else f", up to {human_count(plan.last_round, 'round')}"
            budget = f", at most {plan.budget} of measuring" if plan.budget else ""
            print(f"  --size {size:5}  {len(make_cells(plan))} cells on {loads}{most}{budget}")
        smallest = next(iter(preset.plans.values()))
        cells = make_cells(smallest)
        for reason, count in lacking(smallest, cells).items():
            print(f"  this host: {human_count(count, 'cell')} of {len(cells)} will be skipped: {reason}")
            installable |= "is not installed" in reason
    if installable:
        print("script/bootstrap --all installs every program that the presets need.", file=sys.stderr)


@presets.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the preset.")],
    size: Annotated[
        str | None, typer.Option(help="Print the plan of one size: quick, here or full; default: all sizes.")
    ] = None,
) -> None:
    """Print the TOML of a preset.

    Example: octavo presets show oltp-blocks-demo > mine.toml
    """
    from octavo.plan.presets import find_plan, preset_text

    if size is None:
        print(preset_text(name), end="")
        return
    from octavo.plan.text import plan_text

    preset_text(name)  # a file is no preset
    print(plan_text(find_plan(name, size=size)[0]), end="")
