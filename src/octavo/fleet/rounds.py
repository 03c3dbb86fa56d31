"""Rounds on many hosts: each measures its own part of every round, with its own baseline, and is at most one round
ahead of another.

The coordinator decides which cells are undecided, after rounds that all hosts have finished. A host gets its next part
before it has finished one, so it does not wait for others; if fewer cells are undecided by then, it is notified and
skips the decided ones. The run goes on without a host that is away too long; a returning host joins the current round.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from octavo.errors import HostError
from octavo.fleet.events import Began, Came, Delivered, HostEvent, Left, Refused
from octavo.fleet.members import Asked, Crew, Hosts, Member
from octavo.fleet.orders import PartOrder
from octavo.fleet.received import ReceivedTrials
from octavo.lab.bench import Clock
from octavo.lab.budget import seconds_measured, seconds_of
from octavo.lab.events import Notice, Notify, RoundsStarted, RoundStarted, TrialEnded
from octavo.lab.execute import Ending, RunOutcome, Undecided
from octavo.lab.given_up import GivenUpCells, without_verdict
from octavo.lab.retry import cells_to_retry, rounds_to_retry
from octavo.plan.cells import Cell, load_of, with_their_baselines
from octavo.plan.model import Plan
from octavo.plan.parts import PARTS_OF_A_HOST, host_of_part
from octavo.store.kept_trials import new_identity
from octavo.store.records import TrialRecord, for_rounds

# How far a host may be ahead of the slowest one, in rounds.
_AHEAD = 1
# How many parts are queued on a host: the one that it measures, and the next.
_ASKED_AT_ONCE = 2
_MOST_EVENTS = 1000
# Seconds: received trials are stored after a pause of the first in deliveries, at the latest after the second.
_PAUSE, _LONGEST_WAIT = 0.1, 1.0
# Seconds between two messages that the run is active: a tenth of the time after which hosts drop the run.
_BETWEEN_HOLDS = 60.0
# A host's round has fewer parts than this; repeated measurements are numbered from here.
_FIRST_RETRY = PARTS_OF_A_HOST // 2


class FleetRounds:
    """A run over hosts. `commit` stores trials and returns those that were new."""

    def __init__(
        self,
        run: str,
        plan: Plan,
        cells: Sequence[Cell],
        seed: int,
        numbers: Mapping[str, int],
        hosts: Hosts,
        crew: Crew,
        trials: Sequence[TrialRecord],
        commit: Callable[[Sequence[TrialRecord]], Sequence[TrialRecord]],
        undecided: Undecided,
        clock: Clock,
        notify: Notify,
        patience: float,
    ) -> None:
        """`numbers`: the hosts of the run so far, by name. The run waits for them, up to `patience` seconds."""
        self._run, self._plan, self._cells, self._seed = run, plan, list(cells), seed
        self._hosts, self._crew, self._commit = hosts, crew, commit
        self._received = ReceivedTrials(trials, commit, notify)
        self._undecided, self._clock, self._notify, self._patience = undecided, clock, notify, patience
        self.trials = list(trials)
        self._by_host: dict[int, list[TrialRecord]] = {}
        self._sort(self.trials)
        now = clock.now()
        self._used_before = seconds_measured(self.trials)
        self._measuring_since: float | None = None
        self._members = {
            name: Member(name, number, round=self._rounds_before(number), since=now) for name, number in numbers.items()
        }
        self._complete = self._complete_now()
        self._open: tuple[int, frozenset[str]] | None = None
        self._lost = GivenUpCells(run, cells, notify)
        self._reported_round = 0
        self._stored = self._held = now
        self._happened = False
        self._beginning: dict[str, int] = {}
        self._skipped = {trial.cell for trial in self.trials if trial.status == "skipped"}

    @property
    def numbers(self) -> dict[str, int]:
        """The hosts of the run, by name."""
        return {host.name: host.number for host in self._members.values()}

    @property
    def busy(self) -> frozenset[str]:
        """The hosts that may be measuring: all except those that have delivered everything they were asked for."""
        return frozenset(host.name for host in self._members.values() if host.asked or host.state != "ready")

    def take_rest(self, deliveries: Sequence[Delivered]) -> None:
        """Stores what hosts delivered after the end of the run."""
        for one in deliveries:
            if one.host in self._members:
                self._received.add(one)
        self._store_received()

    def retry(self) -> None:
        """Queues a repetition of every host's failed and invalid trials, with their baselines, before anything else."""
        for host in self._members.values():
            mine = self._trials_of(host)
            runnable = [cell for cell in self._cells if cell.id not in self._skipped]
            base = host.number * PARTS_OF_A_HOST
            for number in rounds_to_retry(mine):
                of_round = [trial for trial in mine if trial.round == number]
                if again := cells_to_retry(runnable, of_round):
                    last = max(base + _FIRST_RETRY, *(trial.part for trial in of_round))
                    host.again.append((number, again, last + 1))
                    self._notify(Notice(f"{host.name}, round {number}: repeating {len(again)} trials"))

    def have(self, host: str) -> dict[str, int]:
        """By outbox of a host, the number up to which it need not send trials again."""
        return self._received.have(host)

    def stored(self, host: str) -> dict[str, int]:
        """By outbox of a host, the number up to which it need not keep trials."""
        return self._received.stored(host)

    def work(self) -> RunOutcome:
        """Runs until every cell is decided, or rounds or budget are used up. Raises HostError without a host."""
        self._notify(RoundsStarted(tuple(self._cells), tuple(self.trials)))
        while (ending := self._hand_out()) is None:
            # First give new parts to all hosts that delivered at about the same time, then store their trials together:
            # a commit waits for the disk, and trials that wait here are still on the hosts' disks.
            self._happened = self._take_all(_PAUSE if self._received.is_waiting else 1.0)
            if not self._happened or self._received.is_full or self._clock.now() - self._stored > _LONGEST_WAIT:
                self._store_received()
            self._drop_unreachable()
            self._hold_hosts()
        self._store_received()
        return RunOutcome.of(ending, self.trials)

    # ── giving out parts ──

    def _hand_out(self) -> Ending | None:
        """Gives every ready host its next part. Returns the reason when the run is over, otherwise None."""
        waiting = [host for host in self._members.values() if host.state in ("away", "beginning") and host.expected]
        if not waiting:
            self._note_unrunnable_cells()
        self._complete = self._complete_now()
        endings: set[Ending] = set()
        # Hosts get their first part before any gets its second. While hosts are about to begin, nobody gets a second.
        coming = self._happened and any(host.state == "beginning" for host in waiting)
        for most in range(1, (1 if coming else _ASKED_AT_ONCE) + 1):
            for host in self._members.values():
                self._hand_out_to(host, most, endings)
        if waiting or any(host.asked for host in self._members.values()):
            return None
        playing = self._playing()
        if not playing:
            raise HostError(f"no host of the fleet is left ({self._lost_hosts() or 'none joined'})")
        if endings:
            return min(endings, key=("budget", "rounds", "decided").index)
        if not any(host.state == "beginning" for host in self._members.values()):
            raise HostError(f"no host is left that can run the undecided cells ({self._lost_hosts()})")
        return None

    def _hand_out_to(self, host: Member, most: int, endings: set[Ending]) -> None:
        """Gives a host parts until `most` are queued on it. Adds the reason to `endings` when there are no more."""
        while host.state == "ready" and len(host.asked) < most:
            if host.again:
                number, failed, part = host.again.popleft()
                if able := [cell for cell in failed if cell.id not in (host.cannot or {})]:
                    self._ask(host, number, able, part)
                continue
            number = 1 + max([host.round, *(one.order.round for one in host.asked if one.order.part is None)])
            if number > self._complete + 1 + _AHEAD:
                break
            cells, ending = self._next_part(host, number)
            if ending is not None:
                endings.add(ending)
                break
            if cells:
                self._report_round(number)
                self._ask(host, number, cells)
            elif host.asked or not self._rounds_end():
                break
            else:  # this host can run none of the undecided cells
                host.round = number
                self._complete = self._complete_now()

    def _ask(self, host: Member, number: int, cells: Sequence[Cell], part: int | None = None) -> None:
        # When a finished run is continued the host no longer has its outbox: send it a list of what it has measured.
        done = tuple(_outline(one) for one in self._trials_of(host) if one.round == number) if part is None else ()
        order = PartOrder(self._run, number, tuple(cell.id for cell in cells), self.have(host.name), part, done)
        now = self._clock.now()
        if self._measuring_since is None:
            self._measuring_since = now
        host.asked.append(Asked(order, cells, now))
        self._hosts.measure(host.name, order)

    def _next_part(self, host: Member, number: int) -> tuple[list[Cell], Ending | None]:
        undecided = self._still_open()
        if not undecided:
            return [], "decided"
        if self._plan.last_round is not None and number > self._plan.last_round:
            return [], "rounds"
        going_on = with_their_baselines(self._runnable(host), undecided)
        if self._plan.budget is not None and number > 1 and going_on and not self._has_begun(host, number):
            left = self._left_after(host, going_on)
            if left is None:
                return [], None
            if left < 0:
                return [], "budget"
        return going_on, None

    def _runnable(self, host: Member) -> list[Cell]:
        return [cell for cell in self._cells if cell.id not in (host.cannot or {}) and cell.id not in self._skipped]

    def _rounds_end(self) -> bool:
        """Whether rounds in which a host has nothing to measure come to an end: at the plan's last one, or because a
        host that takes part measures the undecided cells."""
        if self._plan.last_round is not None:
            return True
        undecided = self._still_open()
        return any(with_their_baselines(self._runnable(host), undecided) for host in self._playing())

    def _lost_hosts(self) -> str:
        """The hosts without which the run continues, each with the reason."""
        playing = self._playing()
        lost = [host for host in self._members.values() if host not in playing]
        return "; ".join(f"{host.name}: {host.why or 'it does not respond'}" for host in lost)

    def _still_open(self) -> frozenset[str]:
        complete = self._complete
        if self._open is None or self._open[0] != complete:
            self._store_received()
            before = [trial for trial in self.trials if trial.round <= complete]
            self._lost.look(before)
            still = frozenset(self._undecided(before))
            if self._open is not None and self._open[1] != still:
                self._hosts.narrow(self._run, still)
            self._open = complete, still
        return self._open[1]

    def _complete_now(self) -> int:
        """The last round that all hosts have finished, without those that the run does not wait for."""
        return min((host.round for host in self._playing()), default=0)

    def _playing(self) -> list[Member]:
        return [host for host in self._members.values() if host.expected and host.state != "refused"]

    def _has_begun(self, host: Member, number: int) -> bool:
        return any(trial.round == number for trial in self._trials_of(host))

    def _left_after(self, host: Member, cells: Sequence[Cell]) -> float | None:
        """The budget left in seconds after what this host was asked for and another part of these cells. None while the
        host has no trial yet to estimate from but was asked for some."""
        budget = self._plan.budget_seconds
        if budget is None:
            return math.inf
        if not self._trials_of(host):
            self._store_received()
        mine = self._trials_of(host)
        if not mine:
            if host.asked:
                return None
            mine = max(self._by_host.values(), key=len, default=mine)  # it joins late: as long as another host takes
        now = self._clock.now()
        ahead = sum(
            max(0.0, sum(seconds_of(one.cells, mine).values()) - (now - one.since if place == 0 else 0.0))
            for place, one in enumerate(host.asked)
        )
        return budget - self._used() - ahead - sum(seconds_of(cells, mine).values())

    def _trials_of(self, host: Member) -> list[TrialRecord]:
        return self._by_host.get(host.number, [])

    def _sort(self, trials: Sequence[TrialRecord]) -> None:
        for trial in trials:
            self._by_host.setdefault(host_of_part(trial.part), []).append(trial)

    def _used(self) -> float:
        """The part of the budget that is used, in seconds. Builds, and waiting for the hosts, are not part of it."""
        since = self._measuring_since
        return self._used_before + (0.0 if since is None else self._clock.now() - since)

    # ── events ──

    def _take_all(self, seconds: float) -> bool:
        """Handles all events that are there or arrive within so many seconds. Returns whether there were any."""
        event = self._hosts.next_event(seconds)
        taken = 0
        while event is not None:
            self._take(event)
            taken += 1
            full = taken >= _MOST_EVENTS or self._received.is_full
            event = None if full else self._hosts.next_event(0.0)
        if self._beginning:
            beginning, self._beginning = self._beginning, {}
            self._crew.begin(beginning)
        return taken > 0

    def _take(self, event: HostEvent) -> None:
        if event.host not in self._members:
            number = 1 + max((host.number for host in self._members.values()), default=0)
            self._members[event.host] = Member(event.host, number, round=self._complete_now(), expected=False)
        host = self._members[event.host]
        match event:
            case Came():
                self._came(host)
            case Left():
                if host.state != "refused":
                    if not host.failing:
                        self._notify(Notice(f"{host.name} does not respond"))
                        host.since, host.failing = self._clock.now(), True
                    host.state = "away"
                    self._drop_late(host)  # here, too: it may be back at once
                self._forget(host)
            case Began():
                if why := self._crew.began(host.name, event.report):
                    self._refuse(host, why)
                else:
                    host.state, host.cannot = "ready", event.report.cannot
                    host.failing = host.failing and event.report.measured <= host.measured
                    host.measured = event.report.measured
                    self._expect_unless_failing(host)
            case Delivered():
                self._delivered(host, event)
            case Refused():
                self._refuse(host, event.why)

    def _came(self, host: Member) -> None:
        if host.state == "refused":
            return
        if not host.expected:  # the others went on without it
            host.round = max(host.round, self._complete_now())
        host.state = "beginning"
        self._forget(host)
        self._beginning[host.name] = host.number

    def _delivered(self, host: Member, event: Delivered) -> None:
        if not self._received.add(event):
            return  # an earlier one was lost: the host will appear as new, and be asked again
        host.failing = False
        self._expect_unless_failing(host)
        host.asked = [one for one in host.asked if one.order is not event.order]
        if host.asked:
            host.asked[0].since = self._clock.now()
        if event.order is not None and event.order.part is None:
            host.round = max(host.round, event.order.round)

    def _expect_unless_failing(self, host: Member) -> None:
        """Has the others wait for a host that takes part; not for one that may be lost again whenever it measures."""
        if not host.expected:  # the others went on without it
            host.round = max(host.round, self._complete_now())
            host.expected = not host.failing

    def _forget(self, host: Member) -> None:
        """Drops the host's pending orders, which will not be answered. Repetitions among them are queued again."""
        for one in reversed(host.asked):
            if one.order.part is not None:
                host.again.appendleft((one.order.round, one.cells, one.order.part))
        host.asked = []

    def _refuse(self, host: Member, why: str) -> None:
        host.state, host.why = "refused", why
        host.asked, host.again = [], deque()
        self._notify(Notice(f"the run continues without {host.name}: {why}"))

    def _drop_unreachable(self) -> None:
        for host in self._members.values():
            if host.state == "away":
                self._drop_late(host)

    def _drop_late(self, host: Member) -> None:
        """Goes on without a host that is away, if it was lost too long ago and has measured nothing since."""
        if host.expected and self._clock.now() - host.since > self._patience:
            host.expected = False
            self._notify(Notice(f"{host.name} has not responded for too long: the run continues without it"))

    def _hold_hosts(self) -> None:
        """Tells the hosts that the run is active, also those that have no order because they wait for a slower one."""
        now = self._clock.now()
        if not 0 <= now - self._held < _BETWEEN_HOLDS:  # the clock may be set back
            self._held = now
            mine = [host.name for host in self._members.values() if host.state in ("beginning", "ready")]
            self._hosts.hold(self._run, mine)

    def _store_received(self) -> None:
        self._stored = self._clock.now()
        self._crew.keep()
        stored = self._received.store()
        kept = [for_rounds(one) for one in stored]
        self.trials += kept
        self._sort(kept)
        by_id = {cell.id: cell for cell in self._cells}
        for number, record in enumerate(stored, 1):
            self._notify(TrialEnded(by_id[record.cell], record, number, len(stored)))

    def _note_unrunnable_cells(self) -> None:
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

    def _report_round(self, number: int) -> None:
        if number <= self._reported_round:
            return
        self._reported_round = number
        still = self._still_open()
        lost = self._skipped | without_verdict(self._cells, self.trials)
        compared = [cell.id for cell in self._cells if not cell.baseline and not cell.control and cell.id not in lost]
        undecided = sum(cell in still for cell in compared)
        budget = self._plan.budget_seconds
        left = None if budget is None else max(0.0, budget - self._used())
        self._notify(RoundStarted(number, self._plan.last_round, undecided, len(compared) - undecided, left))

    # ── continuing a run ──

    def _rounds_before(self, number: int) -> int:
        """The round before the last one that this host has trials of, because the last may be incomplete; at least the
        furthest that a host waited for by the others can have been."""
        rounds = {host_of_part(trial.part): 0 for trial in self.trials}
        for trial in self.trials:
            of = host_of_part(trial.part)
            rounds[of] = max(rounds[of], trial.round)
        return max(0, rounds.get(number, 0) - 1, max(rounds.values(), default=0) - 1 - _AHEAD)


def _outline(trial: TrialRecord) -> TrialRecord:
    """The trial without its results, with times on the host's own clock."""
    ahead = float((trial.facts or {}).get("clock_ahead_seconds", 0.0))
    times = {"started": trial.started + ahead, "ended": trial.ended + ahead}
    return replace(
        trial, observations=(), settings=None, build=None, facts=None, series=(), id=0, identity=None, **times
    )
