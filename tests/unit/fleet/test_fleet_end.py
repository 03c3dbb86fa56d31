"""The end of a fleet run that is cut short: trials that the store does not have remain on the hosts."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.fleet.test_fleet_rounds import FakeHosts
from tests.unit.plans import small_plan

from octavo.errors import Interrupted, OctavoError, StoreAwayError
from octavo.fleet.events import Began, Came, Delivered, HostEvent
from octavo.fleet.orders import Ready, Report, RunOrder
from octavo.fleet.runs import FleetTarget
from octavo.fleet.session import FleetChoice, resume_fleet_run, start_fleet_run
from octavo.store.records import TrialRecord
from octavo.store.store import Store


class Hosts(FakeHosts):
    """The hosts of a session. A host deletes what the coordinator confirms to have at the end of the run."""

    def __init__(self) -> None:
        super().__init__(["a"])
        self.removed: list[TrialRecord] = []
        self.orders: list[RunOrder] = []
        self.raises: BaseException | None = None

    def begin(self, order: RunOrder) -> None:  # type: ignore[override]
        self.orders.append(order)
        self.numbers[order.host] = order.number
        self.events.append(Began(order.host, Report({}, {}, 0)))

    def narrow(self, run: str, cells: Collection[str], names: Collection[str] | None = None) -> None:
        pass

    def next_event(self, seconds: float) -> HostEvent | None:
        # Delivered trials are stored together with the next delivery.
        if self.raises is not None and not self.events and self.outbox["a"]:
            raise self.raises
        return super().next_event(seconds)

    def finish(
        self, run: str, have: Callable[[str], dict[str, int]], names: Collection[str] | None = None
    ) -> list[Delivered]:
        after = have("a").get("box-a", 0)
        rest = self.delivery("a", after)
        if not rest.delivery.trials:
            self.removed, self.outbox["a"] = self.outbox["a"], []
        return [rest]


def prepare(*_: Any) -> Ready:
    raise AssertionError("hosts are not asked for it here")


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    return Hosts()


_SCHEDULER = FleetTarget(None, "tls://10.0.0.1:8786")


def choice(hosts: Hosts) -> FleetChoice:
    return FleetChoice(hosts, ("a",), prepare=prepare, option=_SCHEDULER.option)  # type: ignore[arg-type]


def run(hosts: Hosts) -> str:
    return start_fleet_run(small_plan(), "", "octavo run", 7, choice(hosts), lambda _: None).run


def stored(tmp_path: Path) -> list[TrialRecord]:
    (one,) = [path.name for path in (tmp_path / "runs").iterdir()]
    store = Store.open_to_read(tmp_path / "octavo.sqlite")
    try:
        return store.trials(one)
    finally:
        store.close()


def test_hosts_keep_what_a_store_that_is_away_did_not_take(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Sequence[TrialRecord]:
        raise StoreAwayError("the server does not respond")

    monkeypatch.setattr(Store, "add_storable_trials", away)
    with pytest.raises(OctavoError, match="octavo run --resume"):
        run(hosts)
    assert hosts.outbox["a"]
    assert not hosts.removed


def test_what_waits_when_a_run_is_interrupted_is_stored(hosts: Hosts, tmp_path: Path) -> None:
    hosts.raises = KeyboardInterrupt()
    with pytest.raises(Interrupted, match=r"octavo run --resume \S+ --scheduler tls://10.0.0.1:8786$"):
        run(hosts)
    assert hosts.removed
    assert len(stored(tmp_path)) == len(hosts.removed)


def test_hosts_get_the_plan_of_an_extended_run(hosts: Hosts) -> None:
    """They compared their loads with those of other hosts up to the round at which the run had ended."""
    identifier = run(hosts)
    assert hosts.orders[-1].plan["budget"] is None
    hosts.events = deque([Came("a")])
    hosts.box, hosts.raises = "again", KeyboardInterrupt()
    with suppress(Interrupted):  # unless all cells are decided
        resume_fleet_run(identifier, choice(hosts), lambda _: None, budget="1h")
    assert hosts.orders[-1].plan["budget"] == "1h"


def test_a_host_that_still_has_a_run_that_is_resumed_is_asked_for_the_same(hosts: Hosts) -> None:
    """Otherwise it would release its huge pages, which are hard to get back."""
    hosts.raises = KeyboardInterrupt()
    with pytest.raises(Interrupted):
        run(hosts)
    (identifier,) = {order.run for order in hosts.orders}
    hosts.events, hosts.raises = deque([Came("a")]), None
    resume_fleet_run(identifier, choice(hosts), lambda _: None)
    first, again = hosts.orders
    assert (first.room, again.room) == (None, 0) and first.is_same(again)
