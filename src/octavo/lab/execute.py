"""Runs rounds in order until every cell is decided, or the rounds or the budget are used up.

A round measures every undecided cell once, in random order, with the baselines and controls that these need. If the
budget is too short for all, it measures those of the conditions that are closest to a verdict (`focus`). If the
datasets do not all fit on disk it runs in parts, each a comparison of its own. A round's cells follow from the trials
of earlier rounds alone, so a stopped run continues as if it had not been stopped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from octavo.analysis.trials import used_trials
from octavo.lab.bench import Bench, Clock
from octavo.lab.budget import Forecast, seconds_measured, seconds_of, within_budget
from octavo.lab.events import Notice, Notify, RoundsStarted, RoundStarted
from octavo.lab.given_up import GivenUpCells, without_verdict
from octavo.lab.part import PartRunner
from octavo.lab.retry import beside_their_baselines, cells_to_retry, rounds_to_retry, with_compared
from octavo.lab.runnable import left_out, refuse_nothing_left
from octavo.plan.cells import Cell, load_of, with_their_baselines
from octavo.plan.model import Plan
from octavo.plan.parts import host_of_part
from octavo.store.kept_trials import new_identity
from octavo.store.records import TrialRecord
from octavo.store.sender import TrialSender
from octavo.store.store import Store
from octavo.units import human_count

# From the trials so far, the cells (neither baselines nor controls) that need more, with the number of rounds.
Undecided = Callable[[Sequence[TrialRecord]], Forecast]
Ending = Literal["decided", "rounds", "budget"]


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Why the run ended, and the number of its trials by status. Failed ones that were repeated with success are left
    out."""

    ending: Ending
    ok: int
    invalid: int
    failed: int
    skipped: int

    @classmethod
    def of(cls, ending: Ending, trials: Sequence[TrialRecord]) -> Self:
        """The outcome of a run with these trials, of one host or several."""
        valid = {(trial.round, host_of_part(trial.part), trial.cell) for trial in used_trials(trials).values()}
        statuses = [
            trial.status
            for trial in trials
            if trial.status != "failed" or (trial.round, host_of_part(trial.part), trial.cell) not in valid
        ]
        return cls(ending, *(statuses.count(one) for one in ("ok", "invalid", "failed", "skipped")))

    def failure(self, run: str, reason: str) -> str | None:
        """Why the run is not a success, with the fix; None if it is. `reason`: the reason of a trial without a
        result."""
        fix = f"octavo report {run} lists the reasons, octavo run --retry-failed {run} repeats them"
        if self.ok == 0:
            counts = ((self.failed, "failed"), (self.invalid, "invalid"))
            counted = ", ".join(f"{number} {status}" for number, status in counts if number)
            return f"no trial is valid ({counted}), for example: {reason}; {fix}"
        return f"{human_count(self.failed, 'trial')} failed; {fix}" if self.failed else None


def execute(
    run: str,
    plan: Plan,
    cells: Sequence[Cell],
    seed: int,
    bench: Bench,
    store: Store,
    clock: Clock,
    notify: Notify,
    undecided: Undecided,
    *,
    retry: bool = False,
) -> RunOutcome:
    """Runs what the store does not have of the plan yet. Each trial is stored when it ends, or kept until the store
    responds.

    The budget is measuring time: it counts from here, plus the time measured before the run was resumed. `retry`: first
    repeats trials that failed or stayed invalid, in parts of their rounds, with their baselines.
    """
    session = _Session(run, plan, seed, bench, store, clock, notify, store.trials(run))
    runnable = session.skip_what_cannot_run(cells)
    notify(RoundsStarted(tuple(cells), tuple(session.trials)))
    if retry:
        session.retry(runnable)
    lost = GivenUpCells(run, cells, notify)
    ending: Ending | None = None
    round_number = 0
    while ending is None:
        round_number += 1
        before = [trial for trial in session.trials if trial.round < round_number]
        lost.look(before)
        forecast = undecided(before)
        going_on = with_their_baselines(runnable, frozenset(forecast))
        if not going_on:
            ending = "decided"
        elif plan.last_round is not None and round_number > plan.last_round:
            ending = "rounds"
        else:
            chosen = session.nearest(going_on, forecast, before)
            if not session.has_begun(round_number) and session.seconds_left(round_number, chosen) < 0:
                ending = "budget"
            else:
                hopeless = without_verdict(runnable, before)
                session.report_round(
                    round_number, chosen, going_on, [cell for cell in runnable if cell.id not in hopeless]
                )
                session.run_round(round_number, chosen)
    return RunOutcome.of(ending, session.trials)


class _Session:
    """One session of a run: the trials so far, and the time that it has used."""

    def __init__(
        self,
        run: str,
        plan: Plan,
        seed: int,
        bench: Bench,
        store: Store,
        clock: Clock,
        notify: Notify,
        trials: list[TrialRecord],
    ) -> None:
        self._plan = plan
        self._seed = seed
        self._bench = bench
        self._run = run
        self._sender = TrialSender(store, notice=lambda line: notify(Notice(line)))
        self._kept = 0
        self._clock = clock
        self._notify = notify
        self.trials = trials
        self._parts = PartRunner(plan, seed, bench, clock, notify, trials, self._commit)
        self._began = clock.now()
        self._used_before = seconds_measured(trials)
        self._waiting: tuple[str, ...] = ()

    def skip_what_cannot_run(self, cells: Sequence[Cell]) -> list[Cell]:
        """Reports each cell that this host cannot run, or can no longer run, once, and returns the others. Raises
        HostError if these compare nothing."""
        reasons = left_out(cells, self._bench.cannot_run)
        measured = {trial.cell for trial in self.trials if trial.status != "skipped"}
        reported = {trial.cell for trial in self.trials} - measured
        for cell in cells:
            if cell.id not in reasons or cell.id in reported:
                continue
            if cell.id not in measured:
                now = self._clock.now()
                load = load_of(cell, 1, 1)
                self._parts.add(TrialRecord(cell.id, 1, 1, 0, load, "skipped", reasons[cell.id], now, now, self._seed))
            self._notify(Notice(f"skipped {cell.id}: {reasons[cell.id]}"))
        refuse_nothing_left(cells, reasons)
        return [cell for cell in cells if cell.id not in reasons]

    def has_begun(self, round_number: int) -> bool:
        """Whether the round has a trial. A round that has begun is completed regardless of the budget."""
        return any(trial.round == round_number and trial.status != "skipped" for trial in self.trials)

    def nearest(self, cells: Sequence[Cell], forecast: Forecast, before: Sequence[TrialRecord]) -> list[Cell]:
        """The cells on which the next round spends the budget; all without a budget.

        It depends only on the trials of earlier rounds, so that a resumed run continues a round as it began.
        """
        budget = self._plan.budget_seconds
        if budget is None or self._plan.stopping == "fixed" or not before:
            return list(cells)
        left = budget - seconds_measured(before)
        chosen = within_budget(cells, forecast, seconds_of(cells, before), left)
        kept = {cell.condition for cell in chosen}
        waiting = tuple(dict.fromkeys(cell.condition for cell in cells if cell.condition not in kept))
        if waiting and waiting != self._waiting:
            self._notify(Notice(f"the budget goes to conditions that it can decide; waiting: {'; '.join(waiting)}"))
        self._waiting = waiting
        return chosen

    def seconds_left(self, round_number: int, cells: Sequence[Cell]) -> float:
        """The rest of the budget after another round of these cells; infinite without a budget.

        A trial is expected to take as long as earlier ones of its cell. The first round is never refused.
        """
        budget = self._plan.budget_seconds
        if budget is None:
            return float("inf")
        used = self._used_before + self._clock.now() - self._began
        if round_number == 1:
            return budget
        return budget - used - sum(seconds_of(cells, self.trials).values())

    def run_round(self, round_number: int, cells: Sequence[Cell]) -> None:
        """Runs the missing trials of a round, part by part.

        A round that others have followed is complete. Cells that joined the run since are measured in further parts of
        it, with their baselines, because its trials are too old to be compared with new ones. Its parts are not asked
        for again: they follow from the memory and disk space of that time.
        """
        if not any(trial.round > round_number and trial.status != "skipped" for trial in self.trials):
            for part, members in enumerate(self._bench.parts(cells), 1):
                self._parts.run(round_number, part, members)
            return
        mine = [trial for trial in self.trials if trial.round == round_number and trial.status != "skipped"]
        there = beside_their_baselines(cells, ((trial.part, trial.cell) for trial in mine))
        again = with_compared(cells, frozenset(cell.id for cell in cells) - there, {trial.cell for trial in mine})
        if again and self.seconds_left(round_number, again) >= 0:
            self._run_further_parts(round_number, cells, again)

    def retry(self, cells: Sequence[Cell]) -> None:
        """Repeats, for every round in which a cell has no valid trial, those cells and their baselines in one more
        part."""
        for round_number in rounds_to_retry(self.trials):
            mine = [trial for trial in self.trials if trial.round == round_number]
            if again := cells_to_retry(cells, mine):
                self._notify(Notice(f"round {round_number}: repeating {len(again)} trials"))
                self._run_further_parts(round_number, cells, again)

    def _run_further_parts(self, round_number: int, cells: Sequence[Cell], some: Sequence[Cell]) -> None:
        """Runs some of a round's cells in parts that it does not have yet."""
        last = max((trial.part for trial in self.trials if trial.round == round_number), default=0)
        first = 1 + max(len(self._bench.parts(cells)), last)
        for part, members in enumerate(self._bench.parts(some), first):
            self._parts.run(round_number, part, members)

    def report_round(
        self, round_number: int, chosen: Sequence[Cell], undecided: Sequence[Cell], measurable: Sequence[Cell]
    ) -> None:
        """Reports that the round of the `chosen` cells begins, out of the undecided ones and all that can be
        measured."""
        budget = self._plan.budget_seconds
        used = self._used_before + self._clock.now() - self._began
        measured, open_, all_ = (_compared(cells) for cells in (chosen, undecided, measurable))
        left = None if budget is None else max(0.0, budget - used)
        rounds = self._plan.last_round
        self._notify(RoundStarted(round_number, rounds, open_, all_ - open_, left, open_ - measured))

    def _commit(self, record: TrialRecord) -> TrialRecord:
        record = replace(record, identity=new_identity())
        waiting = self._sender.add(self._run, record)
        if waiting and not self._kept:
            self._notify(Notice("the store does not respond: finished trials are kept on this host and stored later"))
        elif self._kept and not waiting:
            self._notify(Notice("the store responds again and has all finished trials"))
        self._kept = waiting
        return record


def _compared(cells: Sequence[Cell]) -> int:
    """The number of cells that get a verdict."""
    return sum(not cell.baseline and not cell.control for cell in cells)
