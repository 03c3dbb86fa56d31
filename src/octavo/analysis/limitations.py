"""What a report cannot say, and what should alarm its reader."""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.analysis.number_format import ratio
from octavo.analysis.trials import Key, TrialKey
from octavo.plan.cells import Cell
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord
from octavo.units import human_count


def alarms(effects: Sequence[Mapping[str, Any]], cells: Sequence[Cell], primary: str, title: str) -> list[str]:
    """A sentence for each control of either kind that seems to differ, over all conditions at once."""
    by_id = {cell.id: cell for cell in cells}
    found: list[str] = []
    for effect in effects:
        cell = by_id[effect["cell"]]
        if not effect["alarm"] or effect["metric"] != primary or effect["item"] is not None:
            continue
        what = (
            f"{cell.label} is the baseline itself, and seems to differ from it"
            if cell.control
            else f"Something that cannot matter seems to matter: {cell.label}"
        )
        where = f" ({cell.condition})" if cell.condition else ""
        found.append(
            f"{what}{where}: {title} × {ratio(effect['ratio'])} (95 % interval {ratio(effect['low'])} to "
            f"{ratio(effect['high'])}). Effects of this size may be the host's, not the cells'."
        )
    return found


def warnings(
    trials: Sequence[TrialRecord], cells: Sequence[Cell], metrics: Mapping[str, Mapping[str, Any]], kind: str
) -> list[str]:
    """A sentence for each number that is to be told so (`Metric.warns`) and that any trial had, counted or not."""
    labels = {cell.id: cell.label for cell in cells}
    found: list[str] = []
    for name, metric in metrics.items():
        if metric.get("warns") != kind:
            continue
        seen = [
            (trial, one.value) for trial in trials for one in trial.observations if one.metric == name and one.value > 0
        ]
        if not seen:
            continue
        where = ", ".join(dict.fromkeys(labels[trial.cell] for trial, _ in seen))
        number = human_count(len({id(trial) for trial, _ in seen}), "trial")
        amount = f"{sum(value for _, value in seen):,.0f} " if kind == "alarm" else ""
        found.append(f"{metric['title'][0].upper()}{metric['title'][1:]}: {amount}in {number} ({where}).")
    return found


def limits(
    plan: Plan,
    cells: Sequence[Cell],
    effects: Sequence[Mapping[str, Any]],
    values: Mapping[Key, Mapping[TrialKey, float]],
    written: set[str],
) -> list[str]:
    """What holds only under conditions, in whole sentences. `effects` are those of the metric that verdicts speak of,
    `written` the cells whose trials wrote WAL."""
    found: list[str] = []
    loads = sorted({int(effect["loads"]) for effect in effects if effect["conditional"]})
    if loads:
        which = "the one load that was" if loads == [1] else f"the {_numbers(loads)} loads that were"
        found.append(f"Verdicts that are conditional hold for {which} made: another load may answer otherwise.")
    if any(effect["own_scatter"] for effect in effects if effect["item"] is None):
        found.append("Cells that scatter more than the others are judged by their own scatter, with wider intervals.")
    hosts = max((int(effect.get("hosts", 1)) for effect in effects), default=1)
    if hosts == 1:
        found.append("The answer holds for this machine, compiler and filesystem; another one may answer otherwise.")
    elif not all(effect["hosts_in_general"] for effect in effects):
        found.append(
            f"The answer holds for these {hosts} hosts, their compilers and filesystems: what differs between hosts is "
            "in the intervals from five hosts on."
        )
    else:
        found.append(
            "The answer holds for hosts like these, with their compilers and filesystems; it takes them for a random "
            "choice of such hosts."
        )
    if not plan.control:
        found.append("The plan has no control (A/A)" + ("." if plan.negative else ", so there is no noise floor."))
    if any(cell.levels["memory"] == "none" for cell in cells):
        found.append(
            "No memory limit: what does not fit shared_buffers is read from the kernel's page cache when memory allows."
        )
    if any(cell.levels["wal_regime"] == "after-checkpoint" for cell in cells if cell.id in written):
        found.append(
            "WAL regime after-checkpoint: the first change of each page writes a full-page image, "
            "which favours small blocks; a server that is long past a checkpoint writes less WAL."
        )
    if uneven := _uneven(cells, values.get((None, "checkpoints"), {})):
        found.append(
            f"In {uneven} not every cell's trial saw as many checkpoints: the full-page images after one are in the "
            "numbers of some and not of others. Trials as long as checkpoint_timeout have one each."
        )
    if written:
        found.append(
            "Bytes written at the device are those of the measured time: pages that were still dirty at its end, "
            "in shared_buffers or in the page cache, are not in them."
        )
    if any(value > 0 for value in values.get((None, "wal_segments_created"), {}).values()):
        found.append(
            "Some trials wrote more WAL than there were recycled segments, and had to create new ones while measured."
        )
    return found


def circumstances(plan: Plan, environment: Mapping[str, Any], undecided: int, *, finished: bool) -> list[str]:
    """How the run stands or ended while that many cells need more trials, and what disturbed its host."""
    found: list[str] = []
    if plan.stopping == "fixed" and not finished:
        found.append("The plan looks once, at its end: until then the intervals are not final, and decide nothing.")
    if undecided and finished:
        rounds = plan.last_round or plan.rounds
        spent = {
            "budget": f"the budget of {plan.budget} was spent; octavo run --resume with --budget gives it more",
            "rounds": f"the plan's {human_count(rounds, 'round')} {'was' if rounds == 1 else 'were'} done",
        }.get(environment.get("ending", ""))
        if spent is not None:
            were = "was" if undecided == 1 else "were"
            found.append(f"The run ended while {human_count(undecided, 'cell')} {were} undecided: {spent}.")
    found.extend(
        f"The host disturbed the run from its start: {one['check']}: {one['found']}."
        for one in environment.get("host_checks", ())
        if one["severity"] == "disturbs"
    )
    return found


def _uneven(cells: Sequence[Cell], checkpoints: Mapping[TrialKey, float]) -> str:
    """The rounds in which cells of a condition that should be long past a checkpoint had unlike numbers of them."""
    steady = {cell.id: cell.condition for cell in cells if cell.levels["wal_regime"] == "steady"}
    seen: dict[tuple[int, str], set[float]] = {}
    for place, value in checkpoints.items():
        if place[2] in steady:
            seen.setdefault((place[0], steady[place[2]]), set()).add(value)
    rounds = {number for (number, _), counts in seen.items() if len(counts) > 1}
    return human_count(len(rounds), "round") if rounds else ""


def _numbers(loads: Sequence[int]) -> str:
    if len(loads) > 2 and loads[-1] - loads[0] == len(loads) - 1:
        return f"{loads[0]} to {loads[-1]}"
    return " or ".join(str(number) for number in loads)
