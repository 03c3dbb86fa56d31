"""`octavo run --dry-run`: what a plan would do, on this host or on a fleet."""

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.fleet.runs import FleetTarget
    from octavo.lab.host_estimate import HostEstimate
    from octavo.plan.cells import Cell
    from octavo.plan.model import Plan

_ROUNDS_SHOWN = 8
_COSTS = {"build": "build", "cluster": "load", "run": "server start"}


def print_dry_run(plan: "Plan", seed: int | None, target: "FleetTarget | None" = None) -> None:
    """Prints cells, order, builds, disk and time; runs nothing. Raises OctavoError when nothing could run."""
    from octavo.errors import HostError
    from octavo.lab.host_estimate import host_estimate
    from octavo.lab.runnable import refuse_nothing_left
    from octavo.plan.cells import make_cells
    from octavo.plan.impossible import impossible_cells, refuse_impossible

    cells = make_cells(plan)
    for impossible in (refused := impossible_cells(plan, cells)):
        print(f"impossible: {impossible.cell.id}: {impossible.reason}")
    if refused:
        refuse_impossible(plan, cells)
    drawn = random.SystemRandom().randrange(1, 2**31) if seed is None else seed
    if target is None:
        here = host_estimate(plan)
        _print_design(plan, cells, {"": here})
        refuse_nothing_left(cells, here.skipped)
        _print_order(plan, [cell for cell in cells if cell.id not in here.skipped], drawn, seed is None)
        _print_needs(here)
        print(_time(plan, [here]))
        _print_budget(plan, [here])
        _print_forecast(plan, cells, here)
        return
    from octavo.fleet.estimates import host_estimates
    from octavo.fleet.orders import seed_of_host

    plan, found = host_estimates(target, plan, _print_notice)
    cells = make_cells(plan)
    able = {host: one for host, one in found.items() if not isinstance(one, str)}
    _print_design(plan, cells, able)
    for host, one in found.items():
        if isinstance(one, str):
            print(f"\n{host}: cannot take part: {one}")
    if not able:
        raise HostError("no host of the fleet responds; octavo fleet check shows the reasons")
    everywhere = {cell.id for cell in cells if all(cell.id in one.skipped for one in able.values())}
    refuse_nothing_left(cells, {name: next(iter(able.values())).skipped[name] for name in everywhere})
    first, of_first = next((host, one) for host, one in able.items() if len(one.skipped) < len(cells))
    mine = [cell for cell in cells if cell.id not in of_first.skipped]
    print(f"\non {first}; every host has an order of its own:", end="")
    number = 1 + list(found).index(first)  # hosts that do not respond have numbers, too
    _print_order(plan, mine, seed_of_host(drawn, number), seed is None, shown=drawn)
    for host, one in able.items():
        print(f"\n{host}:")
        _print_needs(one, "  ")
    print(f"\nall {len(able)} hosts at the same time\n{_time(plan, list(able.values()))}")
    _print_budget(plan, list(able.values()))


def _print_notice(event: object) -> None:
    from octavo.lab.events import Notice

    if isinstance(event, Notice):
        print(event.text)


def _print_design(plan: "Plan", cells: "Sequence[Cell]", found: "Mapping[str, HostEstimate]") -> None:
    """Factors and cells, with where each is skipped; this host has no name."""
    from octavo.plan.model import factors_of

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
        reasons = {host: one.skipped[cell.id] for host, one in found.items() if cell.id in one.skipped}
        why = "".join(f"  skipped{f' on {host}' if host else ''}: {reason}" for host, reason in reasons.items())
        print(f"  {cell.id}{role}{why}")


def _print_order(plan: "Plan", cells: "Sequence[Cell]", seed: int, drawn: bool, shown: int | None = None) -> None:
    from octavo.plan.cells import load_of, order_of_round

    message = seed if shown is None else shown
    print(f"\norder with --seed {message}{' (drawn at random; give --seed to repeat it)' if drawn else ''}:")
    for number in range(1, min(plan.rounds, _ROUNDS_SHOWN) + 1):
        print(f"  round {number}, load {load_of(cells[0], number, plan.loads)}:")
        for cell in order_of_round(cells, number, 1, seed):
            print(f"    {cell.id}")
    if plan.rounds > _ROUNDS_SHOWN:
        print(f"  … and {'up to ' if plan.last_round else ''}{plan.rounds - _ROUNDS_SHOWN} more rounds")
    if plan.stopping == "decided":
        print(f"  from round {plan.first_analysis} on, decided cells are no longer measured")


def _print_needs(needs: "HostEstimate", indent: str = "") -> None:
    from octavo.units import human_count, human_size

    print(f"{indent or chr(10)}builds needed: {', '.join(needs.builds) or 'none, all cached'}")
    print(f"{indent}loads needed: {needs.loads}")
    print(f"{indent}disk: about {human_size(needs.disk_bytes)} ({human_size(needs.free_bytes)} free)")
    if needs.again:
        what = human_count(needs.again, "trial")
        print(f"{indent}rounds in parts: not all cells fit at once; repeated baselines and controls add {what}")
    if needs.uncounted:
        print(f"{indent}not counted: repeated baselines and controls, if there are too few huge pages for all servers")


def _time(plan: "Plan", found: "Sequence[HostEstimate]") -> str:
    """The time of the slowest host; the trials of all."""
    from octavo.units import human_count, human_duration

    # With a budget there are as many rounds as it takes.
    how_sure = "at most" if plan.stopping == "decided" and plan.budget is None else "about"
    slowest = max(found, key=lambda one: one.seconds)
    return (
        f"time: {how_sure} {human_duration(slowest.seconds)} ({human_duration(slowest.prepare_seconds)} to prepare, "
        f"{human_duration(slowest.trial_seconds)} for {human_count(sum(one.trials for one in found), 'trial')}); "
        f"repetitions of invalid trials may add up to {human_duration(slowest.repeat_seconds)}"
    )


def _print_budget(plan: "Plan", found: "Sequence[HostEstimate]") -> None:
    """When the run ends, and whether that is before the time that is printed above it."""
    if plan.budget is not None and plan.budget_seconds is not None:
        limit = "no limit on rounds" if plan.last_round is None else f"at most {plan.last_round} rounds"
        print(f"budget: stops after {plan.budget} of measuring, decided or not; {limit}")
        if plan.budget_seconds < max(one.trial_seconds for one in found):
            print("  too short for these trials: only some conditions, or fewer rounds, will be measured")


def _print_forecast(plan: "Plan", cells: "Sequence[Cell]", here: "HostEstimate") -> None:
    from octavo.lab.forecast import forecast_lines
    from octavo.store.address import store_address

    runnable = [cell for cell in cells if cell.id not in here.skipped]
    for line in forecast_lines(plan, runnable, here.trial_seconds / plan.rounds, store_address()):
        print(line)
