"""A part of a round: its cells in random order, each until its trial is valid or the tries are used up.

The remaining work follows from the stored trials, so a stopped part continues where it was. A part is measured on one
host; its trials are committed there one by one.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from octavo.lab.bench import Bench, Clock, Measurement
from octavo.lab.events import Notice, Notify, TrialEnded, TrialStarted
from octavo.plan.cells import Cell, load_of, order_of_round
from octavo.plan.model import Plan
from octavo.store.records import TrialRecord

# A round is a comparison only while the host is the same: after a longer interruption it is run again.
BROKEN_AFTER_SECONDS = 600.0
# How often a cell is tried in a round while its trials are invalid. A round without its baseline compares nothing, one
# without its control has no noise floor. A trial that stays invalid says something about the host.
_TRIES = 2
_TRIES_OF_BASELINE = 3


# Of the cells of a part, those still to be measured.
Wanted = Callable[[Sequence[Cell]], Sequence[Cell]]


class PartRunner:
    """Measures parts of rounds. `trials` are those so far; new ones are added. `commit` stores a trial before it is
    reported, and returns it as stored."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        bench: Bench,
        clock: Clock,
        notify: Notify,
        trials: list[TrialRecord],
        commit: Callable[[TrialRecord], TrialRecord],
    ) -> None:
        self._plan = plan
        self._seed = seed
        self._bench = bench
        self._clock = clock
        self._notify = notify
        self._commit = commit
        self.trials = trials

    def run(self, round_number: int, part: int, members: Sequence[Cell], wanted: Wanted = list) -> None:
        """Measures the missing trials of the part. `wanted` is called before each trial and returns the cells to
        continue with."""
        going_on = wanted(members)
        if _next_cell(going_on, self._of(round_number, part, self._attempt(round_number, part, going_on))) is None:
            return
        self._bench.prepare(going_on, round_number)
        while True:
            going_on = wanted(members)
            names = {cell.id for cell in going_on}
            attempt = self._attempt(round_number, part, going_on)
            done = self._of(round_number, part, attempt)
            order = order_of_round(members, round_number, attempt, self._seed)
            cell = _next_cell([one for one in order if one.id in names], done)
            if cell is None:
                return
            if attempt > 1 and not done:
                minutes = BROKEN_AFTER_SECONDS / 60
                self._notify(
                    Notice(f"round {round_number} was interrupted for over {minutes:.0f} minutes: repeating it")
                )
            number, total = min(len({t.cell for t in done}) + 1, len(members)), len(members)
            tries = Counter(trial.cell for trial in done)
            self._notify(TrialStarted(cell, round_number, number, total, tries[cell.id]))
            for record in self._measured(cell, going_on, round_number, part, attempt, len(done) + 1):
                self.add(record)
                of = next(member for member in members if member.id == record.cell)
                self._notify(TrialEnded(of, record, number, total, tries[record.cell]))
                number = min(number + 1, total)

    def add(self, record: TrialRecord) -> None:
        """Stores a trial."""
        self.trials.append(self._commit(record))

    def _of(self, round_number: int, part: int, attempt: int) -> list[TrialRecord]:
        return [
            trial
            for trial in self.trials
            if (trial.round, trial.part, trial.attempt) == (round_number, part, attempt) and trial.status != "skipped"
        ]

    def _attempt(self, round_number: int, part: int, members: Sequence[Cell]) -> int:
        """The attempt to continue: the last one, or a new one if a condition was interrupted for too long. A condition
        that has no trial yet, because it was waiting or given up, is measured in the last one: it has its own baseline.
        """
        mine = [t for t in self.trials if (t.round, t.part) == (round_number, part) and t.status != "skipped"]
        if not mine:
            return 1
        attempt = max(trial.attempt for trial in mine)
        current = [trial for trial in mine if trial.attempt == attempt]
        measured = {trial.cell for trial in current}
        begun = {cell.condition for cell in members if cell.id in measured}
        complete = _next_cell([cell for cell in members if cell.condition in begun], current) is None
        if complete or self._clock.now() - current[-1].ended <= BROKEN_AFTER_SECONDS:
            return attempt
        return attempt + 1

    def _measured(
        self, cell: Cell, members: Sequence[Cell], round_number: int, part: int, attempt: int, position: int
    ) -> list[TrialRecord]:
        """The trial of a cell, or, if its condition takes turns, those of all its cells, which ran at once.

        Each of these is recorded with its share of the time, one after the other.
        """
        # All cells of a round use the same sequence of random numbers, every round another one.
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


def most_tries(cell: Cell) -> int:
    """The most trials of a cell in a round, of which all but the last are invalid."""
    return _TRIES_OF_BASELINE if cell.baseline or cell.control else _TRIES


def _next_cell(order: Sequence[Cell], done: Sequence[TrialRecord]) -> Cell | None:
    """The first cell of the order without a trial in this attempt, then one whose trials are all invalid."""
    for cell in order:
        if not any(t.cell == cell.id for t in done):
            return cell
    for cell in order:
        mine = [t for t in done if t.cell == cell.id]
        if mine[-1].status == "invalid" and len(mine) < most_tries(cell):
            return cell
    return None
