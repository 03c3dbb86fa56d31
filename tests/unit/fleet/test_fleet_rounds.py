"""The assignment of measurements in a fleet, and what is stored, with hosts that take no time."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.unit.plans import small_plan

from octavo.errors import HostError, StoreAwayError
from octavo.fleet.events import Began, Came, Delivered, HostEvent, Left, Refused
from octavo.fleet.orders import Delivery, PartOrder, Report
from octavo.fleet.received import ReceivedTrials
from octavo.fleet.rounds import FleetRounds
from octavo.lab.events import Event, Notice, RoundStarted
from octavo.lab.execute import RunOutcome
from octavo.lab.given_up import without_verdict
from octavo.observation import Observation
from octavo.plan.cells import Cell, load_of, make_cells
from octavo.plan.parts import PARTS_OF_A_HOST, host_of_part
from octavo.store.records import TrialRecord

PLAN = small_plan()
CELLS = make_cells(PLAN)


class FakeHosts:
    """Measures immediately what it is asked, in turn; `cut` hosts keep their results."""

    def __init__(self, names: Sequence[str]) -> None:
        self.time = 1000.0
        self.events: deque[HostEvent] = deque(Came(name) for name in names)
        self.numbers: dict[str, int] = {}
        self.outbox: dict[str, list[TrialRecord]] = {name: [] for name in names}
        self.asked: list[tuple[str, int]] = []
        self.cut: set[str] = set()
        self.full: set[str] = set()
        self.ahead: dict[str, float] = {}
        self.cannot: dict[str, dict[str, str]] = {}
        self.box = "box"
        self.narrowed: list[set[str]] = []
        self.held: list[tuple[float, set[str]]] = []
        self.slow: dict[str, float] = {}
        self._late: list[tuple[float, HostEvent]] = []
        self.bad: set[tuple[str, int, str]] = set()
        self.settings: dict[str, str] | None = None

    def now(self) -> float:
        return self.time

    def begin(self, numbers: Mapping[str, int]) -> None:
        self.numbers |= numbers
        for host in numbers:
            self.events.append(Began(host, Report({}, self.cannot.get(host, {}), 0)))

    def began(self, host: str, report: Report) -> str | None:
        return None

    def keep(self) -> None:
        pass

    def narrow(self, run: str, cells: Collection[str]) -> None:
        self.narrowed.append(set(cells))

    def hold(self, run: str, names: Collection[str]) -> None:
        self.held.append((self.time, set(names)))

    def measure(self, host: str, order: PartOrder) -> None:
        self.asked.append((host, order.round))
        if host in self.full:
            self.events.append(Refused(host, "the disk is full"))
            return
        ahead = self.ahead.get(host, 0.0)
        part = order.part or 1 + self.numbers[host] * PARTS_OF_A_HOST
        there = {(one.round, one.part, one.cell) for one in (*self.outbox[host], *order.done)}
        for position, name in enumerate(order.cells, 1):
            if (order.round, part, name) in there:
                continue
            status = "failed" if order.part is None and (host, order.round, name) in self.bad else "ok"
            cell = next(cell for cell in CELLS if cell.id == name)
            self.time += 1
            now = self.time + ahead
            self.outbox[host].append(
                TrialRecord(
                    name, order.round, 1, position, load_of(cell, order.round, PLAN.loads), status, None, now - 1,
                    now, 1, (Observation("tps", 100.0, "1/s"),), self.settings, part=part,
                )
            )  # fmt: skip
        if host in self.cut:
            self.events.append(Left(host))
        else:
            delivery = self.delivery(host, order.have.get(f"{self.box}-{host}", 0), order)
            if host in self.slow:
                self._late.append((self.time + self.slow[host], delivery))
            else:
                self.events.append(delivery)

    def delivery(self, host: str, after: int = 0, order: PartOrder | None = None) -> Delivered:
        trials = tuple(enumerate(self.outbox[host], 1))[after:]
        now = self.time + self.ahead.get(host, 0.0)
        return Delivered(host, Delivery(f"{self.box}-{host}", trials, now, after=after), self.time, order)

    def next_event(self, seconds: float) -> HostEvent | None:
        if self.events:
            return self.events.popleft()
        for late in self._late:
            if late[0] <= self.time:
                self._late.remove(late)
                return late[1]
        self.time += seconds
        return None


class Fleet:
    """A run over such hosts, and its store."""

    def __init__(self, *names: str) -> None:
        self.hosts = FakeHosts(names)
        self.expected = names
        self.plan = PLAN
        self.stored: list[TrialRecord] = []
        self.commits = 0
        self.told: list[Event] = []
        self.decided_after: int | None = None

    def commit(self, records: Sequence[TrialRecord]) -> list[TrialRecord]:
        self.commits += 1
        known = {one.identity for one in self.stored}
        fresh = [one for one in records if one.identity not in known]
        new = [replace(one, id=len(self.stored) + place) for place, one in enumerate(fresh, 1)]
        self.stored += new
        return new

    def undecided(self, trials: Sequence[TrialRecord]) -> dict[str, float]:
        done = max((trial.round for trial in trials), default=0)
        if self.decided_after is not None and done >= self.decided_after:
            return {}
        lost = without_verdict(CELLS, trials)
        return {cell.id: 1.0 for cell in CELLS if not cell.baseline and not cell.control and cell.id not in lost}

    def rounds(self) -> FleetRounds:
        numbers = {name: number for number, name in enumerate(self.expected, 1)}
        return FleetRounds(
            "run", self.plan, CELLS, 7, numbers, self.hosts, self.hosts, list(self.stored), self.commit, self.undecided,
            self.hosts, self.told.append, patience=60.0,
        )  # fmt: skip

    def work(self) -> RunOutcome:
        return self.rounds().work()

    def places(self) -> list[tuple[int, int, str]]:
        return [(trial.round, host_of_part(trial.part), trial.cell) for trial in self.stored]

    def counts(self) -> list[tuple[int, int]]:
        """The numbers of undecided and decided cells at the beginning of each round."""
        return [(event.undecided, event.decided) for event in self.told if isinstance(event, RoundStarted)]

    def notices(self) -> str:
        return "\n".join(event.text for event in self.told if isinstance(event, Notice))


def whole(*hosts: int, cells: Sequence[Cell] = CELLS, rounds: int = PLAN.rounds) -> list[tuple[int, int, str]]:
    return sorted((number, host, cell.id) for number in range(1, rounds + 1) for host in hosts for cell in cells)


def test_every_host_measures_every_cell_in_every_round() -> None:
    fleet = Fleet("a", "b", "c")
    outcome = fleet.work()
    assert (outcome.ending, outcome.ok) == ("rounds", PLAN.rounds * 3 * len(CELLS))
    assert sorted(fleet.places()) == whole(1, 2, 3)
    assert {(trial.facts or {})["host"] for trial in fleet.stored} == {"a", "b", "c"}


def test_what_hosts_bring_together_is_stored_together() -> None:
    fleet = Fleet(*(f"host{number}" for number in range(50)))
    fleet.work()
    assert len(fleet.stored) == PLAN.rounds * 50 * len(CELLS)
    assert fleet.commits <= 3 * PLAN.rounds


def test_settings_and_series_are_stored_and_not_kept() -> None:
    """They are the largest part of a trial: with 10,000 of pgbench's a coordinator would need a gigabyte."""
    fleet = Fleet("a")
    fleet.hosts.settings = {"work_mem": "4MB"}
    rounds = fleet.rounds()
    rounds.work()
    assert {(trial.settings or {}).get("work_mem") for trial in fleet.stored} == {"4MB"}
    assert not [trial for trial in rounds.trials if trial.settings is not None]
    assert [trial.observations for trial in rounds.trials] == [trial.observations for trial in fleet.stored]


def test_no_host_is_two_rounds_ahead() -> None:
    fleet = Fleet("a", "b")
    fleet.work()
    last = {"a": 0, "b": 0}
    for host, number in fleet.hosts.asked:
        last[host] = number
        assert abs(last["a"] - last["b"]) <= 2


def test_a_host_has_its_next_part_before_it_has_finished_one() -> None:
    fleet = Fleet("a", "b")
    asked: list[list[int]] = []
    take = fleet.hosts.next_event

    def next_event(seconds: float) -> HostEvent | None:
        asked.append([number for host, number in fleet.hosts.asked if host == "a"])
        return take(seconds)

    fleet.hosts.next_event = next_event
    fleet.work()
    assert next(numbers for numbers in asked if numbers) == [1, 2]


def test_every_host_has_its_first_part_before_any_has_its_second() -> None:
    fleet = Fleet("a", "b", "c")
    take = fleet.hosts.next_event
    fleet.hosts.next_event = lambda seconds: take(seconds) if seconds else None  # they arrive one after another
    fleet.work()
    assert fleet.hosts.asked[:3] == [("a", 1), ("b", 1), ("c", 1)]
    assert sorted(fleet.places()) == whole(1, 2, 3)


def test_what_hosts_are_is_stored_before_their_trials() -> None:
    fleet = Fleet("a", "b")
    stored: list[str] = []
    commit = fleet.commit

    def committed(records: Sequence[TrialRecord]) -> list[TrialRecord]:
        stored.append("trials")
        return commit(records)

    fleet.hosts.keep = lambda: stored.append("hosts")
    fleet.commit = committed
    fleet.work()
    assert stored[0] == "hosts"
    assert "trials" in stored


def test_what_is_decided_ends_on_all_hosts() -> None:
    fleet = Fleet("a", "b")
    fleet.decided_after = 2
    assert fleet.work().ending == "decided"
    assert {number for number, _, _ in fleet.places()} <= {1, 2, 3}
    assert fleet.hosts.narrowed[-1] == set()


def test_a_delivery_behind_a_lost_one_waits_until_both_are_sent() -> None:
    fleet = Fleet("a")
    rounds = fleet.rounds()
    fleet.hosts.numbers = {"a": 1}
    for number in (1, 2):
        fleet.hosts.measure("a", PartOrder("run", number, (CELLS[0].id,), {}))
    rounds.take_rest([fleet.hosts.delivery("a", after=1)])
    assert fleet.stored == []
    rounds.take_rest([fleet.hosts.delivery("a"), fleet.hosts.delivery("a", after=1)])
    assert [trial.round for trial in fleet.stored] == [1, 2]


def after_its_end(fleet: Fleet) -> FleetRounds:
    """The rounds of a run that has ended, when it is resumed: both hosts come, and have nothing left to send."""
    fleet.hosts.events = deque([Came("a"), Came("b")])
    fleet.hosts.outbox, fleet.hosts.box = {"a": [], "b": []}, "again"
    return fleet.rounds()


def test_what_failed_is_measured_again_on_its_host_with_its_baseline() -> None:
    fleet = Fleet("a", "b")
    compared = next(cell for cell in CELLS if not cell.baseline and not cell.control)
    fleet.hosts.bad = {("b", 2, compared.id)}
    fleet.work()
    before = len(fleet.stored)
    again = after_its_end(fleet)
    again.retry()
    assert again.work().ending == "rounds"
    new = fleet.stored[before:]
    group = {cell.id for cell in CELLS if cell.condition == compared.condition and (cell.baseline or cell.control)}
    assert {(trial.round, host_of_part(trial.part), trial.cell, trial.status) for trial in new} == {
        (2, 2, name, "ok") for name in {compared.id, *group}
    }
    assert {trial.part for trial in new}.isdisjoint({trial.part for trial in fleet.stored[:before]})


def test_what_a_host_cannot_run_any_more_is_not_repeated_there() -> None:
    fleet = Fleet("a", "b")
    compared = next(cell for cell in CELLS if not cell.baseline and not cell.control)
    fleet.hosts.bad = {("b", 2, compared.id)}
    fleet.work()
    before = len(fleet.stored)
    fleet.hosts.cannot = {"b": {compared.id: "it needs 7 huge pages"}}
    again = after_its_end(fleet)
    again.retry()
    again.work()
    assert compared.id not in {trial.cell for trial in fleet.stored[before:]}


def test_what_fails_everywhere_round_after_round_is_told_once() -> None:
    fleet = Fleet("a", "b")
    compared = next(cell for cell in CELLS if not cell.baseline and not cell.control)
    fleet.hosts.bad = {(host, number, compared.id) for host in "ab" for number in range(1, PLAN.rounds + 1)}
    fleet.work()
    assert fleet.notices().count("no longer measured") == 1
    assert f"{compared.condition}: {compared.label}; for example: " in fleet.notices()
    assert set(fleet.counts()) == {(2, 0), (1, 0)}  # given up, not decided


def test_a_host_that_is_cut_off_is_done_without_after_a_while_and_nothing_is_lost_or_doubled_when_it_is_back() -> None:
    fleet = Fleet("a", "b")
    fleet.hosts.cut = {"b"}
    assert fleet.work().ending == "rounds"
    assert "b has not responded for too long: the run continues without it" in fleet.notices()
    assert sorted(fleet.places()) == whole(1)
    fleet.hosts.cut = set()
    again = fleet.rounds()
    again.take_rest([fleet.hosts.delivery("b"), fleet.hosts.delivery("b")])
    assert [place for place in fleet.places() if place[1] == 2] == whole(2, rounds=2)


def test_a_host_that_comes_back_in_time_goes_on_with_its_part() -> None:
    fleet = Fleet("a", "b")
    fleet.hosts.cut = {"b"}
    rounds = fleet.rounds()
    ask = fleet.hosts.measure

    def once(host: str, order: PartOrder) -> None:
        ask(host, order)
        if host == "b" and fleet.hosts.cut:
            fleet.hosts.cut = set()
            fleet.hosts.events.append(Came("b"))

    fleet.hosts.measure = once
    assert rounds.work().ending == "rounds"
    assert sorted(fleet.places()) == whole(1, 2)


def test_a_host_that_is_lost_whenever_it_begins_is_done_without_after_a_while() -> None:
    """The others waited for it for ever: its worker is started again, and its patience began anew, each time."""
    fleet = Fleet("a", "b")
    begin = fleet.hosts.begin

    def dies(numbers: Mapping[str, int]) -> None:
        begin({host: number for host, number in numbers.items() if host != "b"})
        if "b" in numbers:
            fleet.hosts.time += 20
            fleet.hosts.events += [Left("b"), Came("b")]

    fleet.hosts.begin = dies
    assert fleet.work().ending == "rounds"
    assert sorted(fleet.places()) == whole(1)
    assert fleet.notices().count("b does not respond") == 1
    assert "b has not responded for too long: the run continues without it" in fleet.notices()


def test_a_host_that_came_back_is_waited_for_while_it_begins() -> None:
    """Its builds may take longer than the patience; the network was away for a moment."""
    fleet = Fleet("a", "b")
    begin = fleet.hosts.begin
    losses: list[HostEvent] = [Left("b"), Came("b")]

    def lost_once(numbers: Mapping[str, int]) -> None:
        if "b" in numbers and losses:
            begin({host: number for host, number in numbers.items() if host != "b"})
            fleet.hosts.events += losses
            losses.clear()
            return
        fleet.hosts.time += 100
        begin(numbers)

    fleet.hosts.begin = lost_once
    assert fleet.work().ending == "rounds"
    assert sorted(fleet.places()) == whole(1, 2)
    assert "for too long" not in fleet.notices()


def test_a_host_with_a_full_disk_takes_no_further_part() -> None:
    fleet = Fleet("a", "b")
    fleet.hosts.full = {"b"}
    assert fleet.work().ending == "rounds"
    assert sorted(fleet.places()) == whole(1)
    assert "the run continues without b: the disk is full" in fleet.notices()


def test_without_any_host_left_the_run_cannot_go_on() -> None:
    fleet = Fleet("a")
    fleet.hosts.full = {"a"}
    with pytest.raises(HostError, match=r"no host of the fleet is left \(a: the disk is full"):
        fleet.work()


def test_cells_that_only_a_lost_host_can_run_do_not_keep_the_run_going() -> None:
    """The other host had empty rounds without end: with a budget there is no last one."""
    compared = next(cell.id for cell in CELLS if not cell.baseline and not cell.control)
    fleet = Fleet("a", "b")
    fleet.plan = PLAN.model_copy(update={"budget": "1h"})
    fleet.undecided = lambda trials: {compared: 1.0}
    fleet.hosts.cannot = {"b": {compared: "no root"}}
    fleet.hosts.full = {"a"}
    with pytest.raises(HostError, match=r"can run the undecided cells \(a: the disk is full\)"):
        fleet.work()


def test_builds_and_waiting_for_the_hosts_are_not_part_of_the_budget() -> None:
    """A budget of 10 minutes ended after the first round where the hosts' builds took longer."""
    fleet = Fleet("a", "b")
    fleet.plan = PLAN.model_copy(update={"budget": "10m"})
    fleet.decided_after = 3
    begin = fleet.hosts.begin

    def builds(numbers: Mapping[str, int]) -> None:
        fleet.hosts.time += 3600
        begin(numbers)

    fleet.hosts.begin = builds
    rounds = fleet.rounds()
    fleet.hosts.time += 3600  # builds for several hosts are made before
    assert rounds.work().ending == "decided"
    assert next(event.seconds_left for event in fleet.told if isinstance(event, RoundStarted)) == 600


def test_a_host_that_joins_at_the_end_of_the_budget_begins_no_round() -> None:
    """It had no trials to estimate from, and its round was taken to need no time."""
    fleet = Fleet("a")
    fleet.hosts.outbox["b"] = []
    fleet.plan = PLAN.model_copy(update={"budget": f"{3 * len(CELLS) + 1}s"})
    ask = fleet.hosts.measure

    def measure(host: str, order: PartOrder) -> None:
        ask(host, order)
        if order.round == 1:
            fleet.hosts.events.append(Came("b"))

    fleet.hosts.measure = measure
    assert fleet.work().ending == "budget"
    assert sorted(fleet.places()) == whole(1, rounds=3)


def test_a_clock_that_is_off_is_corrected_and_told() -> None:
    fleet = Fleet("a", "b")
    fleet.hosts.ahead = {"b": 600.0}
    fleet.work()
    assert fleet.notices().count("the clock of b is 600 s ahead: its times are corrected") == 1
    assert all(1000 <= trial.started < trial.ended <= fleet.hosts.time for trial in fleet.stored)
    assert {(trial.facts or {}).get("clock_ahead_seconds") for trial in fleet.stored} == {None, 600.0}


def test_a_cell_goes_where_it_can_run_and_is_skipped_where_nobody_can() -> None:
    compared = [cell for cell in CELLS if not cell.baseline and not cell.control]
    first, second = compared[0].id, compared[-1].id
    assert first != second
    fleet = Fleet("a", "b")
    fleet.hosts.cannot = {"a": {first: "no such device", second: "no root"}, "b": {second: "no root"}}
    fleet.work()
    places = fleet.places()
    assert {host for _, host, cell in places if cell == first} == {2}
    assert [trial.reason for trial in fleet.stored if trial.cell == second] == ["no root"]
    assert set(fleet.counts()) == {(1, 0)}  # skipped, not decided


def test_a_run_that_is_resumed_stores_nothing_twice() -> None:
    fleet = Fleet("a", "b")
    fleet.work()
    before = list(fleet.stored)
    fleet.hosts.events = deque([Came("a"), Came("b")])
    fleet.work()
    assert fleet.stored == before


def test_a_trial_that_comes_again_from_a_host_with_another_time_is_the_same() -> None:
    """The store identifies a trial by its identity and its start, and may have it although it did not answer."""
    asked: list[list[tuple[str | None, float]]] = []

    def commit(records: Sequence[TrialRecord]) -> Sequence[TrialRecord]:
        asked.append([(one.identity, one.started) for one in records])
        if len(asked) == 1:
            raise StoreAwayError("the server does not respond")
        return records

    received = ReceivedTrials([], commit, lambda _: None)
    trial = TrialRecord("cell", 1, 1, 1, 1, "ok", None, 700.0, 701.0, 1)
    assert received.add(Delivered("a", Delivery("box", ((1, trial),), 702.0), 102.0))
    with pytest.raises(StoreAwayError):
        received.store()
    assert received.add(Delivered("a", Delivery("box", ((1, trial),), 712.0), 113.0))
    received.store()
    assert asked == [[("box/1", 100.0)]] * 2


def test_hosts_hear_that_the_run_goes_on_while_they_wait_for_a_slower_one() -> None:
    """A host that had waited for ten minutes gave way to another run."""
    fleet = Fleet("a", "b", "c")
    fleet.hosts.slow["b"] = 1500.0
    fleet.hosts.full.add("c")
    fleet.decided_after = 2
    assert fleet.work().failed == 0
    moments = [moment for moment, _ in fleet.hosts.held]
    assert max(later - earlier for earlier, later in pairwise([1000.0, *moments, fleet.hosts.time])) <= 65
    assert len(moments) > 1500 / 65
    # The host without which the run continues may belong to another run.
    assert all(names == {"a", "b"} for _, names in fleet.hosts.held)
