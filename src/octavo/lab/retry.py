"""What is measured in further parts of a round: with `--retry-failed` the cells without a valid trial, and always those
that joined the run later."""

from collections.abc import Collection, Iterable, Sequence

from octavo.analysis.trials import used_trials
from octavo.plan.cells import Cell, with_their_baselines
from octavo.store.records import TrialRecord


def rounds_to_retry(trials: Sequence[TrialRecord]) -> list[int]:
    """The rounds with a trial that failed or was invalid."""
    return sorted({trial.round for trial in trials if trial.status in ("failed", "invalid")})


def cells_to_retry(cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> list[Cell]:
    """The cells to repeat in a round, from one host's trials of that round: those without a trial that counts beside
    one of their baseline, with their baselines. If a baseline is among them, also all cells compared with it."""
    used = [(part, cell) for _, part, cell in used_trials(trials)]
    others = {cell for _, cell in used}
    bad = {trial.cell for trial in _last_attempts(trials) if trial.status in ("failed", "invalid")}
    return with_compared(cells, frozenset(bad | others) - beside_their_baselines(cells, used), others)


def beside_their_baselines(cells: Sequence[Cell], places: Iterable[tuple[int, str]]) -> set[str]:
    """The cells that are in the same part as their baseline, from parts with their cells. A further part that was
    interrupted may have a cell alone: that one is compared with nothing."""
    there = set(places)
    baseline_of = {cell.condition: cell.id for cell in cells if cell.baseline}
    condition_of = {cell.id: cell.condition for cell in cells}
    return {
        cell
        for part, cell in there
        if cell in condition_of and (part, baseline_of.get(condition_of[cell], cell)) in there
    }


def with_compared(cells: Sequence[Cell], lacking: frozenset[str], others: Collection[str]) -> list[Cell]:
    """The lacking cells with their baselines. If a baseline is among them, also the `others` that are compared with it:
    a round that lost its baseline lost every comparison."""
    conditions = {cell.condition for cell in cells if cell.id in lacking and (cell.baseline or cell.control)}
    return with_their_baselines(
        cells, lacking | {cell.id for cell in cells if cell.condition in conditions and cell.id in others}
    )


def _last_attempts(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    last: dict[int, int] = {}
    for trial in trials:
        last[trial.part] = max(last.get(trial.part, 0), trial.attempt)
    return [trial for trial in trials if trial.attempt == last[trial.part]]
