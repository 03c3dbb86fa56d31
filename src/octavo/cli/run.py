"""`octavo run`: an experiment, from its plan to its verdict."""

import random
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from octavo.fleet.runs import FleetTarget
    from octavo.lab.events import Notify
    from octavo.lab.session import SessionResult
    from octavo.plan.model import Plan

_ROUNDS_SHOWN = 8
_COSTS = {"build": "build", "cluster": "load", "run": "server start"}


def run(
    plan: Annotated[
        str | None, typer.Argument(metavar="PRESET|PLAN.toml", help="A preset's name, or a plan's file.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=LEVEL[,LEVEL…]", help="Set a factor's levels; repeatable."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Upper limit on rounds, even within a budget.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="Seed of the random order; by default drawn at random and stored."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="quick|here|full", help="Size of the plan: minutes, about an hour, or hours and more."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Stop after this much measuring time (30m, 2h), decided or not."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cells, order, builds, disk space and time; run nothing.")
    ] = False,
    pgio_conf: Annotated[
        str | None,
        typer.Option("--pgio-conf", metavar="FILE", help="Read levels from a pgio.conf, for plans with workload pgio."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Continue an interrupted run; a finished one with more --budget.")
    ] = None,
    retry_failed: Annotated[
        str | None, typer.Option(metavar="RUN", help="Repeat a run's failed and invalid trials, then continue it.")
    ] = None,
    fleet: Annotated[
        str | None,
        typer.Option(metavar="HOSTS.toml", help="Measure on all hosts of this file at once (docs/fleet.md)."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="tls://ADDRESS:PORT", help="Measure on the workers of this Dask scheduler."),
    ] = None,
) -> None:
    """Run an experiment: a preset, or a plan of your own.

    It ends when every cell is decided, or when its budget is used up.

    Example: octavo run oltp-blocks-demo --set data_block=4kB,8kB,16kB --budget 30m
    """
    from octavo.errors import TrialsFailed, UsageError

    conf = None
    work: Callable[[Notify], SessionResult]
    on_fleet = _fleet(fleet, scheduler)
    if on_fleet is not None and (retry_failed is not None or dry_run):
        raise UsageError("--fleet and --scheduler take neither --retry-failed nor --dry-run")
    if resume is not None or retry_failed is not None:
        others = (plan, set_ or None, rounds, seed, size, pgio_conf)
        if dry_run or any(one is not None for one in others):
            raise UsageError(
                "--resume and --retry-failed continue with the run's own plan and seed; only --budget may be added"
            )
        if resume is not None and retry_failed is not None:
            raise UsageError("--retry-failed includes --resume; give one of them")
        if on_fleet is not None:
            from octavo.fleet import runs

            work = partial(runs.resume, on_fleet, _find(resume or ""), _duration(budget))
        else:
            from octavo.lab.session import resume_run

            again = _find(resume or retry_failed or "")
            work = partial(resume_run, again, budget=_duration(budget), retry=retry_failed is not None)
    elif plan is not None:
        levels: Mapping[str, list[str]] = {}
        if pgio_conf is not None:
            from octavo.cli import pgio_conf as original

            conf, levels = original.read(pgio_conf, plan)
        chosen, text, repeat = _read(plan, set_ or [], levels, rounds, seed, size, budget)
        if pgio_conf is not None:
            repeat += f" --pgio-conf {shlex.quote(pgio_conf)}"
        if dry_run:
            _print_dry_run(chosen, seed)
            return
        if on_fleet is not None:
            from octavo.fleet import runs

            where = ("--fleet", fleet) if fleet is not None else ("--scheduler", scheduler or "")
            work = partial(runs.start, on_fleet, chosen, text, f"{repeat} {shlex.join(where)}", seed)
        else:
            from octavo.lab.session import start_run

            work = partial(start_run, chosen, text, repeat, seed)
    else:
        from octavo.plan.presets import preset_names

        raise UsageError(f"name a preset ({', '.join(preset_names())}) or a plan's .toml file")
    from octavo.cli.progress import RunProgress

    with RunProgress() as progress:
        ended = work(progress)
    _print_result(ended.run)
    if conf is not None:
        from octavo.cli import pgio_conf as original

        original.print_result(conf, ended.run)
    if ended.outcome.failed:
        raise TrialsFailed(
            f"{ended.outcome.failed} trials failed; octavo report {ended.run} lists the reasons, "
            f"octavo run --retry-failed {ended.run} repeats them"
        )


def _fleet(file: str | None, scheduler: str | None) -> "FleetTarget | None":
    """Where the run goes; None for this host. Raises UsageError when both are given."""
    if file is None and scheduler is None:
        return None
    from octavo.errors import UsageError

    if file is not None and scheduler is not None:
        raise UsageError("--fleet starts a scheduler, --scheduler uses a running one; give one of them")
    from octavo.fleet.runs import FleetTarget

    return FleetTarget(None if file is None else Path(file), scheduler)


def _duration(text: str | None) -> str | None:
    """The text, checked. Raises UsageError when it is no duration."""
    from octavo.units import parse_duration

    if text is not None:
        parse_duration(text)
    return text


def _find(wanted: str) -> str:
    from octavo.store.address import store_address
    from octavo.store.listing import find_run

    return find_run(store_address(), wanted)


def _read(
    plan: str,
    changes: list[str],
    levels: Mapping[str, list[str]],
    rounds: int | None,
    seed: int | None,
    size: str | None,
    budget: str | None,
) -> "tuple[Plan, str, str]":
    """The plan, its text, and the command that repeats it. `levels` are changes too, which `changes` replace."""
    from octavo.errors import UsageError
    from octavo.plan.presets import find_plan

    wanted = dict(levels)
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"--set {change}: write FACTOR=LEVEL, or FACTOR=LEVEL,LEVEL")
        wanted[name.strip()] = [level.strip() for level in value.split(",")]
    parsed, text = find_plan(plan, changes=wanted, rounds=rounds, size=size, budget=budget)
    words = ["octavo", "run", plan, *(word for change in changes for word in ("--set", change))]
    words += [] if rounds is None else ["--rounds", str(rounds)]
    words += [] if size is None else ["--size", size]
    words += [] if budget is None else ["--budget", budget]
    words += [] if seed is None else ["--seed", str(seed)]
    return parsed, text, shlex.join(words)


def _print_dry_run(plan: "Plan", seed: int | None) -> None:
    from octavo import workloads
    from octavo.lab.estimate import estimate
    from octavo.lab.forecast import forecast_lines
    from octavo.lab.runnable import cannot_run, left_out, missing_program, refuse_nothing_left
    from octavo.plan.cells import load_of, make_cells, order_of_round
    from octavo.plan.impossible import impossible_cells, refuse_impossible
    from octavo.plan.model import factors_of
    from octavo.postgres.datasets.disk_space import free_bytes
    from octavo.store.address import store_address
    from octavo.units import human_duration, human_size

    cells = make_cells(plan)
    for impossible in (refused := impossible_cells(plan, cells)):
        print(f"cannot exist: {impossible.cell.id}: {impossible.reason}")
    if refused:
        refuse_impossible(plan, cells)
    workload = workloads.find(plan.workload)
    skipped = left_out(cells, lambda cell: missing_program(workload, cell) or cannot_run(cell))
    runnable = [cell for cell in cells if cell.id not in skipped]
    needs = estimate(plan, runnable, workload)
    print(plan.question)
    print("\nfactors:")
    known = factors_of(plan)
    for name, levels in plan.factors.items():
        factor = known[name]
        print(f"  {name} = {', '.join(levels)}  ({factor.meaning}; a change costs a {_COSTS[factor.kind]})")
    print(f"  {len(known) - len(plan.factors)} other factors are at their defaults (docs/plan.md)")
    print(f"\ncells ({len(cells)}):")
    for cell in cells:
        role = "  (baseline)" if cell.baseline else "  (A/A control)" if cell.control else ""
        why = f"  skipped: {skipped[cell.id]}" if cell.id in skipped else ""
        print(f"  {cell.id}{role}{why}")
    refuse_nothing_left(cells, skipped)
    drawn = random.SystemRandom().randrange(1, 2**31) if seed is None else seed
    print(f"\norder with --seed {drawn}{' (drawn at random; give --seed to repeat it)' if seed is None else ''}:")
    for number in range(1, min(plan.rounds, _ROUNDS_SHOWN) + 1):
        print(f"  round {number}, load {load_of(cells[0], number, plan.loads)}:")
        for cell in order_of_round(runnable, number, 1, drawn):
            print(f"    {cell.id}")
    if plan.rounds > _ROUNDS_SHOWN:
        print(f"  … and {'up to ' if plan.last_round else ''}{plan.rounds - _ROUNDS_SHOWN} more rounds")
    if plan.stopping == "decided":
        print(f"  from round {plan.first_look} on, decided cells are no longer measured")
    print(f"\nbuilds needed: {', '.join(map(str, needs.builds)) or 'none, all cached'}")
    print(f"loads needed: {needs.loads}")
    print(f"disk: about {human_size(needs.disk_bytes)} ({human_size(free_bytes())} free)")
    # With a budget there are as many rounds as it takes.
    how_sure = "at most" if plan.stopping == "decided" and plan.budget is None else "about"
    print(
        f"time: {how_sure} {human_duration(needs.seconds)} ({human_duration(needs.prepare_seconds)} to prepare, "
        f"{human_duration(needs.trial_seconds)} for {needs.trials} trials)"
    )
    if plan.budget is not None:
        limit = "no limit on rounds" if plan.last_round is None else f"at most {plan.last_round} rounds"
        print(f"budget: stops after {plan.budget} of measuring, decided or not; {limit}")
    for line in forecast_lines(plan, runnable, needs.trial_seconds / plan.rounds, store_address()):
        print(line)


def _print_result(run: str) -> None:
    from contextlib import closing

    from octavo.analysis.document import make_document
    from octavo.analysis.shown_metrics import MOST_NUMBERS
    from octavo.cli.output import console
    from octavo.home import octavo_home
    from octavo.report.files import write_html
    from octavo.report.terminal import print_report
    from octavo.store.address import store_address
    from octavo.store.store import Store

    with closing(Store.open(store_address())) as store:
        document = make_document(store, run, most_numbers=MOST_NUMBERS)
    print_report(document, console())
    path = write_html(document, octavo_home() / "runs" / run / "report.html")
    print(f"\nreport: {path}")
