"""Rounds on many hosts: each measures its own part of every round, with its own baseline, and one goes ahead of
another by no more than a round.

What is open is decided here, after rounds that all hosts have finished. A part that was begun before stays what it was:
trials of a cell that was settled meanwhile are stored and do not count. A host that is away for longer than it is
waited for is done without; when it is there again it begins where the others are.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from octavo.errors import HostError
from octavo.fleet.events import Began, Came, Delivered, HostEvent, Left, Refused
from octavo.fleet.orders import PartOrder, Report
from octavo.fleet.received import ReceivedTrials
from octavo.lab.bench import Clock
from octavo.lab.budget import seconds_measured, seconds_of
from octavo.lab.events import Notice, Notify, RoundsStarted, RoundStarted, TrialEnded
from octavo.lab.execute import Ending, RunOutcome, Undecided, with_their_baselines
from octavo.plan.cells import Cell, load_of
from octavo.plan.model import Plan
from octavo.plan.parts import host_of_part
from octavo.store.kept_trials import new_identity
from octavo.store.records import TrialRecord

# How far a host may be ahead of the slowest one, in rounds.
_AHEAD = 1


class Hosts(Protocol):
    """Where parts are measured; see `dask_hosts`."""

    def measure(self, host: str, order: PartOrder) -> None:
        """Asks a host for its share of a round."""
        ...

    def next_event(self, seconds: float) -> HostEvent | None:
        """What happened next; None when nothing does for so long."""
        ...


@dataclass(slots=True)
class _Host:
    """A host in this run. `round`: the last one that it has finished, or that was finished without it."""

    name: str
    number: int
    state: Literal["away", "beginning", "ready", "measuring", "refused"] = "away"
    round: int = 0
    asked: int = 0
    since: float = 0.0
    expected: bool = True
    cannot: Mapping[str, str] | None = None
    why: str = ""


class FleetRounds:
    """A run over hosts. `commit` stores trials, and returns those that were not there yet."""

    def __init__(
        self,
        run: str,
        plan: Plan,
        cells: Sequence[Cell],
        seed: int,
        numbers: Mapping[str, int],
        hosts: Hosts,
        trials: Sequence[TrialRecord],
        commit: Callable[[Sequence[TrialRecord]], Sequence[TrialRecord]],
        began: Callable[[str, Report], str | None],
        begin: Callable[[str, int], None],
        undecided: Undecided,
        clock: Clock,
        notify: Notify,
        patience: float,
    ) -> None:
        """`numbers`: the hosts of the run so far, by name; those of them that are expected are waited for. `began` is
        told what a host is, and may say why it is not to take part; `begin` asks one to make itself ready."""
        self._run, self._plan, self._cells, self._seed = run, plan, list(cells), seed
        self._hosts, self._commit, self._began, self._begin = hosts, commit, began, begin
        self._received = ReceivedTrials(trials, commit, notify)
        self._undecided, self._clock, self._notify, self._patience = undecided, clock, notify, patience
        self.trials = list(trials)
        self._started = clock.now()
        self._used_before = seconds_measured(self.trials)
        self._members = {
            name: _Host(name, number, round=self._rounds_before(number), since=self._started)
            for name, number in numbers.items()
        }
        self._open: tuple[int, frozenset[str]] | None = None
        self._told = 0
        self._skipped = {trial.cell for trial in self.trials if trial.status == "skipped"}

    @property
    def numbers(self) -> dict[str, int]:
        """The hosts of the run, by name."""
        return {host.name: host.number for host in self._members.values()}

    def take_rest(self, deliveries: Sequence[Delivered]) -> None:
        """Stores what hosts still had when the run was over."""
        for one in deliveries:
            if one.host in self._members:
                self._received.add(one)
        self._store_received()

    def have(self, host: str) -> dict[str, int]:
        """Of each outbox of a host, up to which trial it need not send them again."""
        return self._received.have(host)

    def work(self) -> RunOutcome:
        """Until every cell is decided, or the rounds or the budget are spent. Raises HostError when no host is left."""
        self._notify(RoundsStarted(tuple(self._cells), tuple(self.trials)))
        while (ending := self._hand_out()) is None:
            # Hosts that come in together go on first; then all that they brought is stored at once.
            event = self._hosts.next_event(0.0 if self._received.is_waiting else 1.0)
            if event is not None:
                self._take(event)
            if event is None or self._received.is_full:
                self._store_received()
            self._give_up_those_away()
        self._store_received()
        statuses = [trial.status for trial in self.trials]
        return RunOutcome(ending, *(statuses.count(one) for one in ("ok", "invalid", "failed", "skipped")))

    # ── what is next ──

    def _hand_out(self) -> Ending | None:
        """Gives every host that is ready its next part; why the run is over, when it is."""
        waiting = [host for host in self._members.values() if host.state in ("away", "beginning") and host.expected]
        if not waiting:
            self._note_what_nobody_can()
        endings: set[Ending] = set()
        for host in self._members.values():
            while host.state == "ready":
                number = host.round + 1
                if number > self._complete() + 1 + _AHEAD:
                    break
                cells, ending = self._next_part(host, number)
                if ending is not None:
                    endings.add(ending)
                    break
                if not cells:  # what is open is none of its
                    host.round = number
                    continue
                self._tell_round(number, cells)
                host.state, host.asked = "measuring", number
                self._hosts.measure(
                    host.name, PartOrder(self._run, number, tuple(c.id for c in cells), self.have(host.name))
                )
        if any(host.state == "measuring" for host in self._members.values()) or waiting:
            return None
        playing = self._playing()
        if not playing:
            why = "; ".join(f"{host.name}: {host.why or 'it is away'}" for host in self._members.values())
            raise HostError(f"no host of the fleet is left ({why or 'none came'})")
        if endings:
            return min(endings, key=("budget", "rounds", "decided").index)
        return None

    def _next_part(self, host: _Host, number: int) -> tuple[list[Cell], Ending | None]:
        undecided = self._still_open()
        mine = [cell for cell in self._cells if cell.id not in (host.cannot or {}) and cell.id not in self._skipped]
        if not undecided:
            return [], "decided"
        if self._plan.last_round is not None and number > self._plan.last_round:
            return [], "rounds"
        going_on = with_their_baselines(mine, undecided)
        budgeted = self._plan.budget is not None and number > 1 and bool(going_on)
        if budgeted and not self._has_begun(host, number) and self._left_after(host, going_on) < 0:
            return [], "budget"
        return going_on, None

    def _still_open(self) -> frozenset[str]:
        complete = self._complete()
        if self._open is None or self._open[0] != complete:
            self._store_received()
            before = [trial for trial in self.trials if trial.round <= complete]
            self._open = complete, frozenset(self._undecided(before))
        return self._open[1]

    def _complete(self) -> int:
        """The last round that every host has finished which is not done without."""
        return min((host.round for host in self._playing()), default=0)

    def _playing(self) -> list[_Host]:
        return [host for host in self._members.values() if host.expected and host.state != "refused"]

    def _has_begun(self, host: _Host, number: int) -> bool:
        return any(trial.round == number for trial in self._trials_of(host))

    def _left_after(self, host: _Host, cells: Sequence[Cell]) -> float:
        """What the budget has left after another part of these cells on this host; in seconds."""
        budget = self._plan.budget_seconds
        if budget is None:
            return math.inf
        mine = self._trials_of(host)
        if not mine:
            self._store_received()
            mine = self._trials_of(host)
        return budget - self._used() - sum(seconds_of(cells, mine).values())

    def _trials_of(self, host: _Host) -> list[TrialRecord]:
        return [trial for trial in self.trials if host_of_part(trial.part) == host.number]

    def _used(self) -> float:
        return self._used_before + self._clock.now() - self._started

    # ── what came ──

    def _take(self, event: HostEvent) -> None:
        if event.host not in self._members:
            number = 1 + max((host.number for host in self._members.values()), default=0)
            self._members[event.host] = _Host(event.host, number, round=self._complete(), expected=False)
        host = self._members[event.host]
        match event:
            case Came():
                self._came(host)
            case Left():
                if host.state != "refused":
                    self._notify(Notice(f"{host.name} is away"))
                    host.state, host.since = "away", self._clock.now()
            case Began():
                if why := self._began(host.name, event.report):
                    self._refuse(host, why)
                else:
                    host.state, host.cannot, host.expected = "ready", event.report.cannot, True
            case Delivered():
                self._received.add(event)
                if host.state == "measuring":
                    host.state, host.round = "ready", host.asked
            case Refused():
                self._refuse(host, event.why)

    def _came(self, host: _Host) -> None:
        if host.state == "refused":
            return
        if not host.expected:  # the others have gone on without it
            host.round = max(host.round, self._complete())
        host.state = "beginning"
        self._begin(host.name, host.number)

    def _refuse(self, host: _Host, why: str) -> None:
        host.state, host.why = "refused", why
        self._notify(Notice(f"{host.name} takes no further part: {why}"))

    def _give_up_those_away(self) -> None:
        for host in self._members.values():
            if host.state == "away" and host.expected and self._clock.now() - host.since > self._patience:
                host.expected = False
                self._notify(Notice(f"{host.name} has been away for too long: the run goes on without it"))

    def _store_received(self) -> None:
        stored = self._received.store()
        self.trials += stored
        by_id = {cell.id: cell for cell in self._cells}
        for number, record in enumerate(stored, 1):
            self._notify(TrialEnded(by_id[record.cell], record, number, len(stored)))

    def _note_what_nobody_can(self) -> None:
        able = [host for host in self._members.values() if host.cannot is not None]
        if not able:
            return
        now = self._clock.now()
        for cell in self._cells:
            if cell.id in self._skipped or not all(cell.id in (host.cannot or {}) for host in able):
                continue
            self._skipped.add(cell.id)
            reasons = "; ".join(dict.fromkeys((host.cannot or {})[cell.id] for host in able))
            record = TrialRecord(cell.id, 1, 1, 0, load_of(cell, 1, 1), "skipped", reasons, now, now, self._seed)
            self.trials += self._commit([replace(record, identity=new_identity())])
            self._notify(Notice(f"skipped {cell.id}: {reasons}"))

    def _tell_round(self, number: int, cells: Collection[Cell]) -> None:
        if number <= self._told:
            return
        self._told = number
        compared = sum(not cell.baseline and not cell.control for cell in self._cells)
        still = sum(not cell.baseline and not cell.control for cell in cells)
        budget = self._plan.budget_seconds
        left = None if budget is None else max(0.0, budget - self._used())
        self._notify(RoundStarted(number, self._plan.last_round, still, compared - still, left))

    # ── what was before ──

    def _rounds_before(self, number: int) -> int:
        """The round before the last one that this host has trials of, which may not be whole; at least as far as a
        host can have been that was waited for."""
        rounds = {host_of_part(trial.part): 0 for trial in self.trials}
        for trial in self.trials:
            of = host_of_part(trial.part)
            rounds[of] = max(rounds[of], trial.round)
        return max(0, rounds.get(number, 0) - 1, max(rounds.values(), default=0) - 1 - _AHEAD)
