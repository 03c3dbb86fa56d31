"""`octavo run`: an experiment, from its plan to its verdict."""

import random
import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from octavo.plan.model import Plan

_COSTS = {"build": "build", "cluster": "load", "run": "server start"}


def run(
    plan: Annotated[
        str | None, typer.Argument(metavar="PRESET|PLAN.toml", help="A preset's name, or a plan's file.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=LEVEL[,LEVEL…]", help="Replace a factor's levels."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="Seed of the order; drawn and stored if left out."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cells, order, builds, disk and time; run nothing.")
    ] = False,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
) -> None:
    """Run an experiment: a preset or a plan of your own.

    Example: octavo run oltp-blocks-demo --set data_block=4kB,8kB,16kB --rounds 8
    """
    from octavo.errors import TrialsFailed, UsageError

    if resume is not None:
        if plan is not None or set_ or rounds is not None or seed is not None or dry_run:
            raise UsageError("--resume goes on with a run's own plan and seed; it takes no other argument")
        from octavo.lab.session import resume_run

        work = partial(resume_run, _find(resume))
    elif plan is not None:
        chosen, text, repeat = _read(plan, set_ or [], rounds, seed)
        if dry_run:
            _print_dry_run(chosen, seed)
            return
        from octavo.lab.session import start_run

        work = partial(start_run, chosen, text, repeat, seed)
    else:
        from octavo.plan.presets import preset_names

        raise UsageError(f"name a preset ({', '.join(preset_names())}) or a plan's .toml file")
    from octavo.cli.progress import RunProgress

    with RunProgress() as progress:
        ended = work(progress)
    _print_result(ended.run)
    if ended.outcome.failed:
        raise TrialsFailed(f"{ended.outcome.failed} trials failed; octavo report {ended.run} names the reasons")


def _find(wanted: str) -> str:
    from octavo.home import store_path
    from octavo.store.listing import find_run

    return find_run(store_path(), wanted)


def _read(plan: str, changes: list[str], rounds: int | None, seed: int | None) -> "tuple[Plan, str, str]":
    """The plan, its text, and the command that repeats it."""
    from octavo.errors import UsageError
    from octavo.plan.presets import find_plan

    levels: dict[str, list[str]] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"--set {change}: write FACTOR=LEVEL, or FACTOR=LEVEL,LEVEL")
        levels[name.strip()] = [level.strip() for level in value.split(",")]
    parsed, text = find_plan(plan, changes=levels, rounds=rounds)
    words = ["octavo", "run", plan, *(word for change in changes for word in ("--set", change))]
    words += [] if rounds is None else ["--rounds", str(rounds)]
    words += [] if seed is None else ["--seed", str(seed)]
    return parsed, text, shlex.join(words)


def _print_dry_run(plan: "Plan", seed: int | None) -> None:
    from octavo import workloads
    from octavo.lab.estimate import estimate
    from octavo.lab.postgres_bench import scratch_free_bytes
    from octavo.plan.cells import load_of, make_cells, order_of_round
    from octavo.plan.model import known_factors
    from octavo.units import human_duration, human_size

    cells = make_cells(plan)
    needs = estimate(plan, cells, workloads.find(plan.workload))
    print(plan.question)
    print("\nfactors:")
    for factor in known_factors(plan.workload).values():
        levels = plan.factors.get(factor.name, [factor.default])
        print(f"  {factor.name} = {', '.join(levels)}  ({factor.meaning}; a change costs a {_COSTS[factor.kind]})")
    print(f"\ncells ({len(cells)}):")
    for cell in cells:
        print(f"  {cell.id}{'  (baseline)' if cell.baseline else ''}{'  (A/A control)' if cell.control else ''}")
    drawn = random.SystemRandom().randrange(1, 2**31) if seed is None else seed
    print(f"\norder with --seed {drawn}{' (drawn; another one is drawn without it)' if seed is None else ''}:")
    for number in range(1, plan.rounds + 1):
        print(f"  round {number}, load {load_of(cells[0], number, plan.loads)}:")
        for cell in order_of_round(cells, number, 1, drawn):
            print(f"    {cell.id}")
    print(f"\nbuilds needed: {', '.join(map(str, needs.builds)) or 'none, all cached'}")
    print(f"loads needed: {needs.loads}")
    print(f"disk: about {human_size(needs.disk_bytes)} ({human_size(scratch_free_bytes())} free)")
    print(
        f"time: about {human_duration(needs.seconds)} ({human_duration(needs.prepare_seconds)} to prepare, "
        f"{human_duration(needs.trial_seconds)} for {needs.trials} trials)"
    )


def _print_result(run: str) -> None:
    from contextlib import closing

    from octavo.analysis.document import make_document
    from octavo.cli.output import console
    from octavo.home import octavo_home, store_path
    from octavo.report.files import write_html
    from octavo.report.terminal import print_report
    from octavo.store.store import Store

    with closing(Store.open(store_path())) as store:
        document = make_document(store, run)
    print_report(document, console())
    path = write_html(document, octavo_home() / "runs" / run / "report.html")
    print(f"\nreport: {path}")
