"""Hosts that are lost again and again while they measure."""

from collections.abc import Mapping
from itertools import count

from tests.unit.fleet.test_fleet_rounds import PLAN, Fleet, whole

from octavo.fleet.events import Began, Came, Left
from octavo.fleet.orders import PartOrder, Report


def dying(fleet: Fleet, name: str, times: int) -> None:
    """The worker of this host ends in its first trial, so many times, and is started again 20 s later."""
    ask, left = fleet.hosts.measure, [True] * times

    def measure(host: str, order: PartOrder) -> None:
        if host != name or not left:
            ask(host, order)
        elif left.pop():
            fleet.hosts.asked.append((host, order.round))
            fleet.hosts.time += 20
            fleet.hosts.events += [Left(host), Came(host)]

    fleet.hosts.measure = measure


def test_a_host_that_is_lost_whenever_it_measures_is_done_without_after_a_while() -> None:
    """The others waited for it for ever: it was ready again each time, and its patience began anew."""
    fleet = Fleet("a", "b")
    dying(fleet, "b", 1000)
    assert fleet.work().ending == "rounds"
    assert sorted(fleet.places()) == whole(1)
    assert fleet.notices().count("b does not respond") == 1
    assert fleet.notices().count("b has not responded for too long: the run continues without it") == 1
    assert len(fleet.hosts.asked) < 50


def test_a_host_that_measures_again_is_waited_for_again() -> None:
    fleet = Fleet("a", "b")
    dying(fleet, "b", 6)  # for longer than the patience
    begin, decided = fleet.hosts.begin, fleet.undecided

    def slowly(numbers: Mapping[str, int]) -> None:
        fleet.hosts.time += 1
        begin(numbers)

    fleet.hosts.begin = slowly
    fleet.undecided = lambda trials: {} if len({one.part for one in trials}) > 1 else decided(trials)
    fleet.plan = PLAN.model_copy(update={"budget": "1h"})
    assert fleet.work().ending == "decided"
    assert {host for _, host, _ in fleet.places()} == {1, 2}
    assert "b has not responded for too long: the run continues without it" in fleet.notices()


def test_a_host_that_measures_between_its_losses_is_waited_for() -> None:
    """A round is delivered as a whole: two losses in a long one ended a run that had no other host."""
    fleet = Fleet("a")
    dying(fleet, "a", 6)  # for longer than the patience
    measured = count()

    def begin(numbers: Mapping[str, int]) -> None:
        fleet.hosts.numbers |= numbers
        fleet.hosts.events += [Began(host, Report({}, {}, 0, measured=next(measured))) for host in numbers]

    fleet.hosts.begin = begin
    assert fleet.work().ending == "rounds"
    assert sorted(fleet.places()) == whole(1)
