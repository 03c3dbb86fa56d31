"""Rounds in order: every cell once a round in random order, broken rounds again, invalid trials retried."""

from collections.abc import Sequence
from dataclasses import dataclass

from octavo.errors import HostError
from octavo.lab.bench import Bench, Clock
from octavo.lab.events import Notice, Notify, RoundsStarted, TrialEnded, TrialStarted
from octavo.plan.cells import Cell, load_of, order_of_round
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord
from octavo.store.store import Store

# A round is a comparison only while the host is the same: one that was broken for longer is run again.
BROKEN_AFTER_SECONDS = 600.0
# How often a cell is tried in a round while its trials are invalid. A round without its baseline compares
# nothing, one without its control has no noise floor; what stays invalid says something about the host.
_TRIES = 2
_TRIES_OF_BASELINE = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many trials of this run ended how."""

    ok: int
    invalid: int
    failed: int
    skipped: int


def execute(
    run: str,
    plan: Plan,
    cells: Sequence[Cell],
    seed: int,
    bench: Bench,
    store: Store,
    clock: Clock,
    notify: Notify,
) -> Outcome:
    """Runs what the store does not yet have of the plan, each trial stored as it ends.

    It goes on where a stopped run was, in the same order, since the order depends on the seed alone.
    """
    trials = store.trials(run)
    runnable = _skip_what_cannot_run(run, cells, trials, bench, store, clock, seed, notify)
    total = plan.rounds * len(runnable)
    notify(RoundsStarted(tuple(cells), tuple(trials)))
    for round_number in range(1, plan.rounds + 1):
        attempt = _attempt(round_number, trials, runnable, clock, notify)
        order = order_of_round(runnable, round_number, attempt, seed)
        while cell := _next_cell(order, [t for t in trials if (t.round, t.attempt) == (round_number, attempt)]):
            finished = len({(t.round, t.cell) for t in trials if t.status != "skipped"})
            position = 1 + sum((t.round, t.attempt) == (round_number, attempt) for t in trials)
            if position > 1 and attempt < _attempt(round_number, trials, runnable, clock, notify):
                attempt += 1
                order = order_of_round(runnable, round_number, attempt, seed)
                continue
            number = min(finished + 1, total)
            notify(TrialStarted(cell, round_number, plan.rounds, number, total))
            record = _run_trial(cell, round_number, attempt, position, plan, seed, bench, clock)
            store.add_trial(run, record)
            trials.append(record)
            notify(TrialEnded(cell, record, number, total))
    return Outcome(*(sum(t.status == status for t in trials) for status in ("ok", "invalid", "failed", "skipped")))


def _skip_what_cannot_run(
    run: str,
    cells: Sequence[Cell],
    trials: list[TrialRecord],
    bench: Bench,
    store: Store,
    clock: Clock,
    seed: int,
    notify: Notify,
) -> list[Cell]:
    reasons = {cell.id: reason for cell in cells if (reason := bench.cannot_run(cell)) is not None}
    lost = {cell.condition for cell in cells if cell.baseline and cell.id in reasons}
    for cell in cells:
        if cell.condition in lost:
            reasons.setdefault(cell.id, "its baseline cannot run here, so there is nothing to compare it with")
    known = {t.cell for t in trials}
    for cell in cells:
        if cell.id in reasons and cell.id not in known:
            now = clock.now()
            record = TrialRecord(cell.id, 1, 1, 0, load_of(cell, 1, 1), "skipped", reasons[cell.id], now, now, seed)
            store.add_trial(run, record)
            trials.append(record)
            notify(Notice(f"skipped {cell.id}: {record.reason}"))
    runnable = [cell for cell in cells if cell.id not in reasons]
    if not runnable:
        raise HostError(f"no cell of this plan can run on this host: {next(iter(reasons.values()))}")
    return runnable


def _attempt(
    round_number: int, trials: Sequence[TrialRecord], cells: Sequence[Cell], clock: Clock, notify: Notify
) -> int:
    """Which attempt at the round to go on with: the last one, or a new one when that was broken for too long."""
    mine = [t for t in trials if t.round == round_number and t.status != "skipped"]
    if not mine:
        return 1
    attempt = max(t.attempt for t in mine)
    current = [t for t in mine if t.attempt == attempt]
    complete = _next_cell(cells, current) is None
    if complete or clock.now() - current[-1].ended <= BROKEN_AFTER_SECONDS:
        return attempt
    minutes = BROKEN_AFTER_SECONDS / 60
    notify(Notice(f"round {round_number} was broken for more than {minutes:.0f} minutes and is run again"))
    return attempt + 1


def _next_cell(order: Sequence[Cell], done: Sequence[TrialRecord]) -> Cell | None:
    """The first cell of the order without a trial in this attempt; then one whose trials are all invalid."""
    for cell in order:
        if not any(t.cell == cell.id for t in done):
            return cell
    for cell in order:
        mine = [t for t in done if t.cell == cell.id]
        tries = _TRIES_OF_BASELINE if cell.baseline or cell.control else _TRIES
        if mine[-1].status == "invalid" and len(mine) < tries:
            return cell
    return None


def _run_trial(
    cell: Cell,
    round_number: int,
    attempt: int,
    position: int,
    plan: Plan,
    seed: int,
    bench: Bench,
    clock: Clock,
) -> TrialRecord:
    load = load_of(cell, round_number, plan.loads)
    # The same sequence of random numbers for every cell of a round, another one for every round.
    trial_seed = (seed * 1_000_003 + round_number) % 2**31
    started = clock.now()
    measurement = bench.measure(cell, load=load, seed=trial_seed)
    return TrialRecord(
        cell=cell.id,
        round=round_number,
        attempt=attempt,
        position=position,
        load=load,
        status=measurement.status,
        reason=measurement.reason,
        started=started,
        ended=clock.now(),
        seed=trial_seed,
        observations=measurement.observations,
        settings=measurement.settings,
        build=measurement.build,
        facts=measurement.facts,
    )
