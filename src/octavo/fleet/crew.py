"""The stored facts about the hosts of a run: their numbers, properties, and which may take part."""

from collections.abc import Callable, Mapping
from typing import Any

from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.orders import Report, RunOrder
from octavo.host.host_class import ANY, is_of_class
from octavo.plan.factors import HOST_CLASS
from octavo.store.store import Store

# What must be the same when a host takes part again: else its rounds would not compare.
_SAME = ("hostname", "kernel", "cpu")
_OF_A_HOST = ("host", "host_checks", "builds")


class HostCrew:
    """Begins with hosts, whose numbers are stored by then. `order` makes the run's order for a host, its number and
    its room for datasets."""

    def __init__(self, notes: "HostNotes", hosts: DaskHosts, order: Callable[[str, int, int | None], RunOrder]) -> None:
        self._notes, self._hosts, self._order = notes, hosts, order

    def begin(self, numbers: Mapping[str, int]) -> None:
        """Asks these hosts, with their numbers in the run, to make themselves ready."""
        self._notes.number(numbers)
        rooms = self._notes.hosts
        for host, number in numbers.items():
            self._hosts.begin(self._order(host, number, rooms[host].get("room_bytes")))

    def began(self, host: str, report: Report) -> str | None:
        """Takes what a host is; why it is not to take part, if so."""
        return self._notes.began(host, report)

    def keep(self) -> None:
        """Stores what `began` took."""
        self._notes.keep()


class HostNotes:
    """What is stored of the hosts: what each is, by name, and beside it what reports show of a host, of the first."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run
        self._facts = dict(store.run(run).environment)
        self._classes = {cell.levels.get(HOST_CLASS, ANY) for cell in store.cells(run)}
        self._stored = True

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """By name: its number in the run, the room of its datasets, and what it is."""
        return dict(self._facts.get("fleet", {}))

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each host in this run."""
        return {name: host["number"] for name, host in self.hosts.items()}

    def number(self, numbers: Mapping[str, int]) -> None:
        """Stores the numbers of hosts."""
        hosts = self.hosts
        if new := {name: number for name, number in numbers.items() if self.numbers.get(name) != number}:
            self.note(fleet={**hosts, **{name: {**hosts.get(name, {}), "number": new[name]} for name in new}})

    def began(self, name: str, report: Report) -> str | None:
        """Notes what a host is, for `keep`; why it may not take part: it is another one than before, of another class,
        or has loads that were made on another host, which would be counted as independent ones."""
        hosts = self.hosts
        before: Mapping[str, Any] = hosts[name].get("host", {})
        now = report.environment.get("host", {})
        for what in _SAME:
            if what in before and before[what] != now.get(what):
                return (
                    f"{what} changed since the run began ({before[what]}, now {now.get(what)}): rounds not comparable"
                )
        classes = self._classes
        if not any(is_of_class(report.host_class, wanted) for wanted in classes):
            return f"the plan has no cell for hosts of its class, {report.host_class}"
        for other in hosts.values():
            if classes == {ANY} and not is_of_class(report.host_class, other.get("class", ANY)):
                return (
                    f"it is of class {report.host_class}, the others of {other['class']}: effects may differ with it; "
                    f"list both as levels of {HOST_CLASS} in a new run"
                )
        loads = {of: set(other.get("loads", ())) for of, other in hosts.items()}
        for of in loads.keys() - {name}:
            if copies := sorted(load for load, identity in report.loads.items() if identity in loads[of]):
                return (
                    f"its load {copies[0]} is a copy of {of}'s, and would count as an independent one; on {name}: "
                    f"octavo cache rm {' '.join(copies)}"
                )
        hosts[name] = {
            **hosts[name],
            "loads": sorted(loads[name].union(report.loads.values())),
            "class": report.host_class,
            "room_bytes": report.room,
            **{key: report.environment.get(key) for key in _OF_A_HOST},
        }
        shared = {key: value for key, value in report.environment.items() if key != "octavo"}
        first = all("host" not in other for of, other in hosts.items() if of != name)
        self._facts |= {"fleet": hosts, **(shared if first else {})}
        self._stored = False
        return None

    def note(self, **facts: Any) -> None:
        """Stores more."""
        self._facts |= facts
        self._stored = False
        self.keep()

    def keep(self) -> None:
        """Stores what was noted since: all of it is one document, which is written once for many hosts."""
        if not self._stored:
            self._store.set_environment(self._run, self._facts)
            self._stored = True
