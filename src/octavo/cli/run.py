"""`octavo run`: an experiment, from its plan to its verdict."""

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from octavo.fleet.runs import FleetTarget
    from octavo.host.checks.base import HostCounters
    from octavo.lab.events import Notify
    from octavo.lab.session import SessionResult
    from octavo.plan.model import Plan


def run(
    plan: Annotated[
        str | None, typer.Argument(metavar="PRESET|PLAN.toml", help="A preset's name, or a plan's file.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=LEVEL[,LEVEL…]", help="Set a factor's levels; once for each factor."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Upper limit on rounds, even within a budget.")] = None,
    loads: Annotated[int | None, typer.Option(help="Number of independent loads of each cell's data.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="Seed of the random order; by default drawn at random and stored."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="quick|here|full",
            help="Size of the plan: quick takes minutes, here about an hour, full hours or more.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop after this much measuring time (30m, 2h), decided or not; a resumed run's earlier time counts.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cells, order, builds, disk space and time; run nothing.")
    ] = False,
    pgio_conf: Annotated[
        str | None,
        typer.Option("--pgio-conf", metavar="FILE", help="Read levels from a pgio.conf, for plans with workload pgio."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Continue an interrupted run, or with --budget extend a finished one."),
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

    \b
    Example:
    octavo run oltp-blocks-demo --set data_block=4kB,8kB,16kB --budget 30m
    """
    from octavo.errors import TrialsFailed, UsageError

    since = _counters()
    conf = None
    work: Callable[[Notify], SessionResult]
    on_fleet = _fleet(fleet, scheduler)
    if resume is not None or retry_failed is not None:
        others = (plan, set_ or None, rounds, loads, seed, size, pgio_conf)
        if dry_run or any(one is not None for one in others):
            raise UsageError(
                "--resume and --retry-failed continue with the run's own plan and seed; leave out all but --budget, "
                "--fleet and --scheduler"
            )
        if resume is not None and retry_failed is not None:
            raise UsageError("--retry-failed includes --resume; give one of them")
        _check_budget(budget)
        if on_fleet is not None:
            from octavo.fleet import runs

            again = _find(resume or retry_failed or "")
            work = partial(runs.resume, on_fleet, again, budget, retry=retry_failed is not None)
        else:
            from octavo.lab.session import resume_run

            again = _find(resume or retry_failed or "")
            work = partial(resume_run, again, budget=budget, retry=retry_failed is not None, since=since)
    elif plan is not None:
        levels: Mapping[str, list[str]] = {}
        if pgio_conf is not None:
            from octavo.cli import pgio_conf as original

            conf, levels = original.read(pgio_conf, plan)
        chosen, text, repeat = _read(plan, set_ or [], levels, rounds, loads, seed, size, budget)
        if pgio_conf is not None:
            repeat += f" --pgio-conf {shlex.quote(pgio_conf)}"
        if dry_run:
            from octavo.cli.dry_run import print_dry_run

            print_dry_run(chosen, seed, on_fleet)
            return
        if conf is not None:
            from octavo.cli import pgio_conf as original

            original.check_data(conf, chosen)
        if on_fleet is not None:
            from octavo.fleet import runs

            work = partial(runs.start, on_fleet, chosen, text, f"{repeat} {on_fleet.option}", seed)
        else:
            from octavo.lab.session import start_run

            work = partial(start_run, chosen, text, repeat, seed, since=since)
    else:
        raise UsageError("name a preset, such as oltp-blocks-demo (octavo presets lists them), or a plan's .toml file")
    from octavo.cli.progress import RunProgress

    with RunProgress() as progress:
        ended = work(progress)
    document = _print_result(ended.run)
    if conf is not None:
        from octavo.cli import pgio_conf as original

        original.print_result(conf, ended.run)
    reasons = (trial["reason"] for trial in document["trials"] if trial["status"] in ("failed", "invalid"))
    if failure := ended.outcome.failure(ended.run, next(reasons, "")):
        raise TrialsFailed(failure)


def _counters() -> "HostCounters | None":
    """The host's counters before the libraries of a run are loaded, so that other programs are observed meanwhile. None
    if they cannot be read, which the check of the host reports."""
    from octavo.home import octavo_home
    from octavo.host.checks.base import counters_now

    place = octavo_home()
    try:
        while not place.exists():
            place = place.parent
        return counters_now(place)
    except OSError:
        return None


def _fleet(file: str | None, scheduler: str | None) -> "FleetTarget | None":
    """Where the run goes; None for this host. Raises UsageError when both are given."""
    if file is None and scheduler is None:
        return None
    from octavo.errors import UsageError

    if file is not None and scheduler is not None:
        raise UsageError("--fleet starts a scheduler, --scheduler uses a running one; give one of them")
    from octavo.fleet.runs import FleetTarget

    return FleetTarget(None if file is None else Path(file), scheduler)


def _check_budget(text: str | None) -> None:
    """Raises UsageError for a budget that is no duration, or 0."""
    from octavo.units import duration_option

    if text is not None:
        duration_option("--budget", text, "1ms", "36500d")


def _find(wanted: str) -> str:
    from octavo.store.address import store_address
    from octavo.store.listing import find_run

    return find_run(store_address(), wanted)


def _read(
    plan: str,
    changes: list[str],
    levels: Mapping[str, list[str]],
    rounds: int | None,
    loads: int | None,
    seed: int | None,
    size: str | None,
    budget: str | None,
) -> "tuple[Plan, str, str]":
    """The plan, its text, and the command that repeats it. `levels` are changes too, which `changes` replace."""
    from octavo.errors import UsageError
    from octavo.plan.presets import find_plan

    chosen: dict[str, list[str]] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"--set {change}: write FACTOR=LEVEL, or FACTOR=LEVEL,LEVEL")
        if (factor := name.strip()) in chosen:
            raise UsageError(f"--set {change}: {factor} is already set; give all its levels in one --set")
        chosen[factor] = [level.strip() for level in value.split(",")]
    parsed, text = find_plan(plan, changes={**levels, **chosen}, rounds=rounds, loads=loads, size=size, budget=budget)
    words = ["octavo", "run", plan, *(word for change in changes for word in ("--set", change))]
    words += [] if rounds is None else ["--rounds", str(rounds)]
    words += [] if loads is None else ["--loads", str(loads)]
    words += [] if size is None else ["--size", size]
    words += [] if budget is None else ["--budget", budget]
    words += [] if seed is None else ["--seed", str(seed)]
    return parsed, text, shlex.join(words)


def _print_result(run: str) -> dict[str, Any]:
    """Prints the report and writes the page; returns the document."""
    from contextlib import closing

    from octavo.analysis.document import make_document
    from octavo.analysis.shown_metrics import MOST_NUMBERS
    from octavo.cli.output import console
    from octavo.report.files import write_html
    from octavo.report.terminal import print_report
    from octavo.store.address import store_address
    from octavo.store.run_files import run_directory
    from octavo.store.store import Store

    with closing(Store.open(store_address())) as store:
        document = make_document(store, run, most_numbers=MOST_NUMBERS)
    print_report(document, console())
    path = write_html(document, run_directory(run) / "report.html")
    print(f"\nreport: {path}")
    return document
