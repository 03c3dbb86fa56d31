"""Rounds in order until every cell is decided, or the rounds or the budget are spent.

A round is every cell that is still open once, in random order, with the baselines and controls that these need; where
the budget does not suffice for all, those of the conditions that are nearest to an answer (`focus`). Where not all
datasets fit the disk it runs in parts, each a comparison of its own. What a round has to measure follows from the
trials of earlier rounds alone, so a run that was stopped goes on as if it had not been.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from octavo.lab.bench import Bench, Clock, Measurement
from octavo.lab.budget import Forecast, seconds_measured, seconds_of, within_budget
from octavo.lab.events import Notice, Notify, RoundsStarted, RoundStarted, TrialEnded, TrialStarted
from octavo.lab.runnable import left_out, refuse_nothing_left
from octavo.plan.cells import Cell, load_of, order_of_round
from octavo.plan.model import Plan
from octavo.store.kept_trials import new_identity
from octavo.store.records import TrialRecord
from octavo.store.sender import TrialSender
from octavo.store.store import Store

# A round is a comparison only while the host is the same: one that was broken for longer is run again.
BROKEN_AFTER_SECONDS = 600.0
# How often a cell is tried in a round while its trials are invalid. A round without its baseline compares
# nothing, one without its control has no noise floor; what stays invalid says something about the host.
_TRIES = 2
_TRIES_OF_BASELINE = 3

# Of the trials so far: the cells, neither baselines nor controls, that need more, with how many rounds.
Undecided = Callable[[Sequence[TrialRecord]], Forecast]
Ending = Literal["decided", "rounds", "budget"]


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Why the run ended, and how many of its trials ended how."""

    ending: Ending
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
    undecided: Undecided,
    *,
    retry: bool = False,
) -> RunOutcome:
    """Runs what the store does not yet have of the plan, each trial stored as it ends, or kept until the store answers.

    The budget is one of measuring: it counts from here, and what earlier sittings measured. `retry`: first repeats what
    failed or stayed invalid, in parts of its rounds, with its baselines.
    """
    session = _Session(run, plan, seed, bench, store, clock, notify, store.trials(run))
    runnable = session.skip_what_cannot_run(cells)
    notify(RoundsStarted(tuple(cells), tuple(session.trials)))
    if retry:
        session.retry(runnable)
    ending: Ending | None = None
    round_number = 0
    while ending is None:
        round_number += 1
        before = [trial for trial in session.trials if trial.round < round_number]
        forecast = undecided(before)
        going_on = _going_on(runnable, frozenset(forecast))
        if not going_on:
            ending = "decided"
        elif plan.last_round is not None and round_number > plan.last_round:
            ending = "rounds"
        else:
            going_on = session.nearest(going_on, forecast, before)
            if not session.has_begun(round_number) and session.seconds_left(round_number, going_on) < 0:
                ending = "budget"
            else:
                session.run_round(round_number, going_on, runnable)
    trials = session.trials
    return RunOutcome(
        ending, *(sum(t.status == status for t in trials) for status in ("ok", "invalid", "failed", "skipped"))
    )


def _going_on(cells: Sequence[Cell], open_cells: frozenset[str]) -> list[Cell]:
    """The open cells with the baselines and controls of their conditions, in the order of the plan."""
    conditions = {cell.condition for cell in cells if cell.id in open_cells}
    return [
        cell
        for cell in cells
        if cell.id in open_cells or ((cell.baseline or cell.control) and cell.condition in conditions)
    ]


class _Session:
    """One sitting at a run: the trials so far, and the time that it has used."""

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
        self._run = run
        self._plan = plan
        self._seed = seed
        self._bench = bench
        self._sender = TrialSender(store)
        self._kept = 0
        self._clock = clock
        self._notify = notify
        self.trials = trials
        self._began = clock.now()
        self._used_before = seconds_measured(trials)
        self._waiting: tuple[str, ...] = ()

    def skip_what_cannot_run(self, cells: Sequence[Cell]) -> list[Cell]:
        """Notes each cell that this host cannot run once, and returns the others. Raises HostError without any."""
        reasons = left_out(cells, self._bench.cannot_run)
        known = {trial.cell for trial in self.trials}
        for cell in cells:
            if cell.id in reasons and cell.id not in known:
                now = self._clock.now()
                load = load_of(cell, 1, 1)
                self._add(TrialRecord(cell.id, 1, 1, 0, load, "skipped", reasons[cell.id], now, now, self._seed))
                self._notify(Notice(f"skipped {cell.id}: {reasons[cell.id]}"))
        refuse_nothing_left(cells, reasons)
        return [cell for cell in cells if cell.id not in reasons]

    def has_begun(self, round_number: int) -> bool:
        """Whether the round has a trial: what was begun is brought to its end, whatever the budget says."""
        return any(trial.round == round_number and trial.status != "skipped" for trial in self.trials)

    def nearest(self, cells: Sequence[Cell], forecast: Forecast, before: Sequence[TrialRecord]) -> list[Cell]:
        """Those of the cells that the rest of the budget is spent on in the next round; all without a budget.

        It depends on the trials of earlier rounds alone, so that a resumed run goes on with a round as it began.
        """
        budget = self._plan.budget_seconds
        if budget is None or self._plan.stopping == "fixed" or not before:
            return list(cells)
        left = budget - seconds_measured(before)
        chosen = within_budget(cells, forecast, seconds_of(cells, before), left)
        kept = {cell.condition for cell in chosen}
        waiting = tuple(dict.fromkeys(cell.condition for cell in cells if cell.condition not in kept))
        if waiting and waiting != self._waiting:
            self._notify(Notice(f"the budget goes to what it can answer; these wait: {'; '.join(waiting)}"))
        self._waiting = waiting
        return chosen

    def seconds_left(self, round_number: int, cells: Sequence[Cell]) -> float:
        """What the budget has left after another round of these cells; infinite without a budget.

        A trial is expected to take what those of its cell took so far. The first round is never refused.
        """
        budget = self._plan.budget_seconds
        if budget is None:
            return float("inf")
        used = self._used_before + self._clock.now() - self._began
        if round_number == 1:
            return budget
        return budget - used - sum(seconds_of(cells, self.trials).values())

    def run_round(self, round_number: int, cells: Sequence[Cell], runnable: Sequence[Cell]) -> None:
        """Runs what a round still lacks, part by part."""
        self._tell_round(round_number, cells, runnable)
        for part, members in enumerate(self._bench.parts(cells), 1):
            self._run_part(round_number, part, members)

    def retry(self, cells: Sequence[Cell]) -> None:
        """Every round in which a cell has no valid trial gets one more part: those cells and their baselines."""
        for round_number in sorted({trial.round for trial in self.trials if trial.status in ("failed", "invalid")}):
            mine = self._last_attempts(round_number)
            good = {trial.cell for trial in mine if trial.status == "ok"}
            lacking = frozenset(trial.cell for trial in mine if trial.status in ("failed", "invalid")) - good
            conditions = {cell.condition for cell in cells if cell.id in lacking and (cell.baseline or cell.control)}
            # A round that lost its baseline lost every comparison.
            lacking |= {cell.id for cell in cells if cell.condition in conditions and cell.id in good}
            if again := _going_on(cells, lacking):
                first = 1 + max(len(self._bench.parts(cells)), *(trial.part for trial in mine))
                self._notify(Notice(f"round {round_number}: {len(again)} trials again"))
                for part, members in enumerate(self._bench.parts(again), first):
                    self._run_part(round_number, part, members)

    def _last_attempts(self, round_number: int) -> list[TrialRecord]:
        mine = [trial for trial in self.trials if trial.round == round_number]
        last = {trial.part: max(t.attempt for t in mine if t.part == trial.part) for trial in mine}
        return [trial for trial in mine if trial.attempt == last[trial.part]]

    def _tell_round(self, round_number: int, cells: Sequence[Cell], runnable: Sequence[Cell]) -> None:
        budget = self._plan.budget_seconds
        used = self._used_before + self._clock.now() - self._began
        compared = sum(not cell.baseline and not cell.control for cell in runnable)
        still = sum(not cell.baseline and not cell.control for cell in cells)
        rounds = self._plan.last_round
        left = None if budget is None else max(0.0, budget - used)
        self._notify(RoundStarted(round_number, rounds, still, compared - still, left))

    def _run_part(self, round_number: int, part: int, members: Sequence[Cell]) -> None:
        if _next_cell(members, self._of(round_number, part, self._attempt(round_number, part, members))) is None:
            return
        self._bench.prepare(members, round_number)
        while True:
            attempt = self._attempt(round_number, part, members)
            done = self._of(round_number, part, attempt)
            cell = _next_cell(order_of_round(members, round_number, attempt, self._seed), done)
            if cell is None:
                return
            if attempt > 1 and not done:
                minutes = BROKEN_AFTER_SECONDS / 60
                self._notify(
                    Notice(f"round {round_number} was broken for more than {minutes:.0f} minutes and is run again")
                )
            number, total = min(len({t.cell for t in done}) + 1, len(members)), len(members)
            self._notify(TrialStarted(cell, round_number, number, total))
            for record in self._measured(cell, members, round_number, part, attempt, len(done) + 1):
                self._add(record)
                of = next(member for member in members if member.id == record.cell)
                self._notify(TrialEnded(of, record, number, total))
                number = min(number + 1, total)

    def _of(self, round_number: int, part: int, attempt: int) -> list[TrialRecord]:
        return [
            trial
            for trial in self.trials
            if (trial.round, trial.part, trial.attempt) == (round_number, part, attempt) and trial.status != "skipped"
        ]

    def _attempt(self, round_number: int, part: int, members: Sequence[Cell]) -> int:
        """Which attempt to go on with: the last one, or a new one when that was broken for too long."""
        mine = [t for t in self.trials if (t.round, t.part) == (round_number, part) and t.status != "skipped"]
        if not mine:
            return 1
        attempt = max(trial.attempt for trial in mine)
        current = [trial for trial in mine if trial.attempt == attempt]
        complete = _next_cell(members, current) is None
        if complete or self._clock.now() - current[-1].ended <= BROKEN_AFTER_SECONDS:
            return attempt
        return attempt + 1

    def _measured(
        self, cell: Cell, members: Sequence[Cell], round_number: int, part: int, attempt: int, position: int
    ) -> list[TrialRecord]:
        """The trial of a cell; where its condition takes turns, those of all its cells, which ran at once.

        Of these each is said to have taken its share of the time, one after the other.
        """
        # The same sequence of random numbers for every cell of a round, another one for every round.
        seed = (self._seed * 1_000_003 + round_number) % 2**31
        started = self._clock.now()
        group = sorted(
            (member for member in members if member.condition == cell.condition), key=lambda one: not one.baseline
        )
        measured: list[Measurement] | None = None
        if self._bench.takes_turns(group):
            loads = [load_of(one, round_number, self._plan.loads) for one in group]
            measured = self._bench.measure_by_turns(group, loads, round_number=round_number, seed=seed)
        if measured is None:
            group = [cell]
            measured = [self._bench.measure(cell, load=load_of(cell, round_number, self._plan.loads), seed=seed)]
        share = (self._clock.now() - started) / len(group)
        return [
            TrialRecord(
                cell=one.id,
                round=round_number,
                attempt=attempt,
                position=position + place,
                load=load_of(one, round_number, self._plan.loads),
                status=measurement.status,
                reason=measurement.reason,
                started=started + place * share,
                ended=started + (place + 1) * share,
                seed=seed,
                observations=measurement.observations,
                settings=measurement.settings,
                build=measurement.build,
                facts=measurement.facts,
                part=part,
                series=measurement.series,
            )
            for place, (one, measurement) in enumerate(zip(group, measured, strict=True))
        ]

    def _add(self, record: TrialRecord) -> None:
        record = replace(record, identity=new_identity())
        waiting = self._sender.add(self._run, record)
        if waiting and not self._kept:
            self._notify(Notice("the store does not answer: ended trials are kept on this host, and arrive later"))
        elif self._kept and not waiting:
            self._notify(Notice("the store answers again, and has all ended trials"))
        self._kept = waiting
        self.trials.append(record)


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
