"""`octavo run`: an experiment, from its plan to its verdict."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from octavo.plan.model import Plan


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
    from octavo.errors import Interrupted, OctavoError, TrialsFailed, UsageError

    if resume is not None:
        if plan is not None or set_ or rounds is not None or seed is not None or dry_run:
            raise UsageError("--resume goes on with a run's own plan and seed; it takes no other argument")
        identifier = _find(resume)
    elif plan is None:
        from octavo.plan.presets import preset_names

        raise UsageError(f"name a preset ({', '.join(preset_names())}) or a plan's .toml file")
    else:
        identifier = None
    from octavo.cli.progress import RunProgress

    chosen, text, repeat = (None, "", "") if plan is None else _read(plan, set_ or [], rounds, seed)
    if chosen is not None and dry_run:
        _print_dry_run(chosen, seed)
        return
    from octavo.lab.session import resume_run, start_run

    with RunProgress() as progress:
        try:
            if identifier is not None:
                ended = resume_run(identifier, progress)
            else:
                assert chosen is not None
                ended = start_run(chosen, text, repeat, seed, progress)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; finished trials are kept, go on with: octavo run --resume {_find('last')}"
            ) from None
        except OctavoError:
            raise
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
    from octavo.plan.model import parse_plan
    from octavo.plan.presets import preset_text

    levels: dict[str, list[str]] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"--set {change}: write FACTOR=LEVEL, or FACTOR=LEVEL,LEVEL")
        levels[name.strip()] = [level.strip() for level in value.split(",")]
    path = Path(plan)
    if path.suffix == ".toml":
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{plan}: cannot be read: {getattr(error, 'strerror', None) or 'not text'}") from None
    else:
        text = preset_text(plan)
    parsed = parse_plan(text, origin=plan, changes=levels, rounds=rounds)
    words = ["octavo", "run", plan, *(word for change in changes for word in ("--set", change))]
    words += [] if rounds is None else ["--rounds", str(rounds)]
    words += [] if seed is None else ["--seed", str(seed)]
    return parsed, text, shlex.join(words)


def _print_dry_run(plan: "Plan", seed: int | None) -> None:
    from octavo import workloads
    from octavo.lab.estimate import estimate
    from octavo.lab.postgres_bench import scratch_free_bytes
    from octavo.plan.cells import load_of, make_cells, order_of_round
    from octavo.units import human_duration, human_size

    cells = make_cells(plan)
    needs = estimate(plan, cells, workloads.find(plan.workload))
    print(plan.question)
    print(f"\ncells ({len(cells)}):")
    for cell in cells:
        print(f"  {cell.id}{'  (baseline)' if cell.baseline else ''}{'  (A/A control)' if cell.control else ''}")
    if seed is None:
        print(f"\norder: {plan.rounds} rounds of {len(cells)} trials, shuffled by a seed drawn when the run starts")
    else:
        print(f"\norder (seed {seed}):")
        for number in range(1, plan.rounds + 1):
            print(f"  round {number}, load {load_of(cells[0], number, plan.loads)}:")
            for cell in order_of_round(cells, number, 1, seed):
                print(f"    {cell.id}")
    print(
        "\nbuilds needed: " + (", ".join(_spell(spec) for spec in needs.builds) if needs.builds else "none, all cached")
    )
    print(f"loads needed: {needs.loads}")
    print(f"disk: about {human_size(needs.disk_bytes)} ({human_size(scratch_free_bytes())} free)")
    print(
        f"time: about {human_duration(needs.seconds)} ({human_duration(needs.prepare_seconds)} to prepare, "
        f"{human_duration(needs.trial_seconds)} for {needs.trials} trials)"
    )


def _spell(spec: object) -> str:
    from octavo.postgres.build import BuildSpec

    assert isinstance(spec, BuildSpec)
    return f"PostgreSQL {spec.version} with {spec.data_block} data and {spec.wal_block} WAL blocks"


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
