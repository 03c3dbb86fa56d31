"""Limitations of a report, and its alarms."""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.analysis.number_format import end_of_interval, ratio
from octavo.analysis.trials import CUT_OFF, Key, TrialKey
from octavo.plan.cells import Cell
from octavo.plan.condition_text import capital, condition_text
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord
from octavo.units import human_count

# What follows from runs that were cancelled, beside the sentence that names them.
CANCELLED = (
    "An item with a run that was cancelled at the time limit has no time and no ratio in that cell, and neither has "
    "the total, because only the fast runs ended."
)
_CONTINUES = "octavo run --resume RUN --budget TIME continues until it has measured for TIME in all."


def alarms(effects: Sequence[Mapping[str, Any]], cells: Sequence[Cell], primary: str, title: str) -> list[str]:
    """A sentence for each control of either kind that seems to differ, over all conditions at once."""
    by_id = {cell.id: cell for cell in cells}
    found: list[str] = []
    for effect in effects:
        cell = by_id[effect["cell"]]
        if not effect["alarm"] or effect["metric"] != primary or effect["item"] is not None:
            continue
        what = (
            f"The A/A control {cell.label} seems to differ from the baseline, although both are the same"
            if cell.control
            else f"A negative control seems to differ from the baseline: {cell.label}"
        )
        where = f" ({condition_text(cell.condition)})" if cell.condition else ""
        interval = ""  # none where it reaches farther than a million times
        if effect["low"] is not None:
            low, high = (end_of_interval(effect[end], ratio) for end in ("low", "high"))
            interval = f" (95 % interval {low} to {high})"
        found.append(
            f"{what}{where}: {title} × {ratio(effect['ratio'])}{interval}. "
            "Do not trust effects of this size: the host may cause them."
        )
    return found


def warnings(
    trials: Sequence[TrialRecord], cells: Sequence[Cell], metrics: Mapping[str, Mapping[str, Any]], kind: str
) -> list[str]:
    """A sentence for each metric with this kind of `Metric.warns` that is above zero in any trial, counted or not; with
    the items that have it."""
    labels = {cell.id: cell.label for cell in cells}
    found: list[str] = []
    for name, metric in metrics.items():
        if metric.get("warns") != kind:
            continue
        seen = [(trial, one) for trial in trials for one in trial.observations if one.metric == name and one.value > 0]
        if not seen:
            continue
        items: dict[str, dict[str, None]] = {}
        for trial, one in seen:
            items.setdefault(labels[trial.cell], {}).update({one.item: None} if one.item else {})
        named = [f"{label}: {', '.join(its)}" if its else label for label, its in items.items()]
        where = ("; " if any(items.values()) else ", ").join(named)
        number = human_count(len({id(trial) for trial, _ in seen}), "trial")
        amount = f"{sum(one.value for _, one in seen):,.0f} " if kind == "alarm" else ""
        found.append(f"{metric['title'][0].upper()}{metric['title'][1:]}: {amount}in {number} ({where}).")
    return found


def limits(
    plan: Plan,
    cells: Sequence[Cell],
    effects: Sequence[Mapping[str, Any]],
    values: Mapping[Key, Mapping[TrialKey, float]],
    written: set[str],
    *,
    imported: bool = False,
) -> list[str]:
    """The limitations as sentences. `effects` are those of the metric that verdicts speak of, `written` the cells whose
    trials wrote WAL. Nothing is said of levels that an imported run does not have."""
    found: list[str] = []
    loads = sorted({int(effect["loads"]) for effect in effects if effect["conditional"]})
    if loads:
        which = "the one load that was" if loads == [1] else f"the {_numbers(loads)} loads that were"
        found.append(f"Conditional verdicts hold only for {which} measured; another load may give another result.")
    if any(metric == CUT_OFF for _, metric in values):
        found.append(CANCELLED)
    if any(effect["own_scatter"] for effect in effects if effect["item"] is None):
        found.append("Cells that scatter more than the others are judged by their own scatter, with wider intervals.")
    hosts = max((int(effect.get("hosts", 1)) for effect in effects), default=1)
    if imported:
        found.append("The answer holds for the machine on which it was measured.")
    elif hosts == 1:
        found.append("The answer holds for this machine, compiler and filesystem.")
    elif not all(effect["hosts_in_general"] for effect in effects):
        found.append(
            f"The answer holds for these {hosts} hosts, their compilers and filesystems; with five hosts or more "
            "the intervals include the differences between hosts."
        )
    else:
        found.append(
            "The answer holds for hosts like these, with their compilers and filesystems, if they are a random "
            "sample of such hosts."
        )
    if not plan.control:
        found.append("The plan has no A/A control" + ("." if plan.negative else ", so there is no noise floor."))
    if not imported and any(cell.levels["memory"] == "none" for cell in cells):
        found.append("No memory limit: data that does not fit shared_buffers may be read from the kernel's page cache.")
    if any(cell.levels["wal_regime"] == "after-checkpoint" for cell in cells if cell.id in written):
        found.append(
            "WAL regime after-checkpoint: the first change of each page writes a full-page image, "
            "which favours small blocks; long after a checkpoint a server writes less WAL."
        )
    if uneven := _uneven(cells, values.get((None, "checkpoints"), {})):
        found.append(
            f"In {uneven} the cells had different numbers of checkpoints, and so different amounts of full-page "
            "images. Trials as long as checkpoint_timeout have one checkpoint each."
        )
    if written:
        found.append(
            "Bytes written to the device do not include pages that were still dirty in shared_buffers or the page "
            "cache when the measurement ended."
        )
    if any(value > 0 for value in values.get((None, "wal_segments_created"), {}).values()):
        found.append("Some trials ran out of recycled WAL segments and had to create new ones during the measurement.")
    return found


def zeros(cells: Sequence[Cell], values: Mapping[TrialKey, float], title: str) -> list[str]:
    """A sentence about the cells without a ratio because a trial of theirs, or of their baseline, was zero (or less).
    `values` are those of the metric that verdicts speak of."""
    lost = {cell for (_, _, cell), value in values.items() if value <= 0}
    named = [
        f"{condition_text(cell.condition)}: {cell.label}" if cell.condition else cell.label
        for cell in cells
        if cell.id in lost
    ]
    if not named:
        return []
    return [
        f"{capital(title)} was zero or less in a trial of {'; '.join(named)}. Such a cell has no ratio, and if it "
        "is the baseline no cell of its condition has one, because a ratio of the other trials would be a selection."
    ]


def circumstances(plan: Plan, environment: Mapping[str, Any], undecided: int, *, finished: bool) -> list[str]:
    """Why the run ended with that many cells undecided, or that it is not final, and what disturbed its host."""
    found: list[str] = []
    if plan.stopping == "fixed" and not finished:
        found.append("The plan is analysed once, at its end. Until then no interval is final and nothing is decided.")
    if undecided and finished:
        rounds = plan.last_round or plan.rounds
        left = f"with {human_count(undecided, 'cell')} undecided"
        more = "" if plan.stopping == "fixed" else f" {_CONTINUES}"
        ending = {
            "budget": f"Stopped when the budget of {plan.budget} was used up, {left}. {_CONTINUES}",
            "rounds": f"Stopped after {human_count(rounds, 'round')}, the plan's limit, {left}.{more}",
        }.get(environment.get("ending", ""))
        if ending is not None:
            found.append(ending)
    disturbed: dict[str, list[str]] = {}
    for name, its in recorded_hosts(environment).items():
        for one in its.get("host_checks") or ():
            if one["severity"] == "disturbs":
                disturbed.setdefault(_disturbance(one), []).append(name)
    for what, names in disturbed.items():
        host = f"host{'s' if len(names) > 1 else ''} {', '.join(names)}".rstrip()
        found.append(f"The {host} disturbed the run from the start: {what}")
    return found


def recorded_hosts(environment: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The facts, checks and builds of each host, by its name: of a fleet those that began; without one, the only host
    has no name."""
    fleet: dict[str, dict[str, Any]] = environment.get("fleet", {})
    began = {name: its for name, its in fleet.items() if its.get("host")}
    return dict(sorted(began.items(), key=lambda pair: pair[1]["number"])) or {"": environment}


def _disturbance(one: Mapping[str, Any]) -> str:
    """A check of the host before the run: what it found, why it matters, what to do."""
    why = f" ({one['why']})" if one.get("why") else ""
    fix = f" To do: {one['fix']}." if one.get("fix") else ""
    return f"{one['check']}: {one['found']}{why}.{fix}"


def _uneven(cells: Sequence[Cell], checkpoints: Mapping[TrialKey, float]) -> str:
    """The rounds in which cells of a condition that should be long past a checkpoint had unlike numbers of them, within
    a part of the round: only cells of one part are compared."""
    steady = {cell.id: cell.condition for cell in cells if cell.levels["wal_regime"] == "steady"}
    seen: dict[tuple[int, int, str], set[float]] = {}
    for place, value in checkpoints.items():
        if place[2] in steady:
            seen.setdefault((*place[:2], steady[place[2]]), set()).add(value)
    rounds = {number for (number, *_), counts in seen.items() if len(counts) > 1}
    return human_count(len(rounds), "round") if rounds else ""


def _numbers(loads: Sequence[int]) -> str:
    if len(loads) > 2 and loads[-1] - loads[0] == len(loads) - 1:
        return f"{loads[0]} to {loads[-1]}"
    return " or ".join(str(number) for number in loads)
