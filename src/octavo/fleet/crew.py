"""The stored facts about the hosts of a run: their numbers, their properties, and which may take part."""

from collections.abc import Callable, Mapping
from typing import Any

from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.orders import Report, RunOrder
from octavo.host.facts import changed
from octavo.host.host_class import ANY, is_of_class
from octavo.plan.factors import HOST_CLASS
from octavo.store.store import Store

_OF_A_HOST = ("host", "host_checks", "builds")


class HostCrew:
    """Prepares the hosts of a run after storing their numbers. `order` makes a host's RunOrder from its name, its
    number and the space for its datasets."""

    def __init__(self, notes: "HostNotes", hosts: DaskHosts, order: Callable[[str, int, int | None], RunOrder]) -> None:
        self._notes, self._hosts, self._order = notes, hosts, order

    def begin(self, numbers: Mapping[str, int]) -> None:
        """Asks these hosts, with their numbers in the run, to prepare for it."""
        self._notes.number(numbers)
        rooms = self._notes.hosts
        for host, number in numbers.items():
            self._hosts.begin(self._order(host, number, rooms[host].get("room_bytes")))

    def began(self, host: str, report: Report) -> str | None:
        """Records a host's report. Returns the reason when the host may not take part, otherwise None."""
        return self._notes.began(host, report)

    def keep(self) -> None:
        """Stores what `began` recorded."""
        self._notes.keep()


class HostNotes:
    """What is stored about the hosts: the facts of each, by name, and those of the first one, which reports show."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run
        self._facts = dict(store.run(run).environment)
        self._classes = {cell.levels.get(HOST_CLASS, ANY) for cell in store.cells(run)}
        self._stored = True

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """By name: the host's number in the run, the space for its datasets, and its facts."""
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
        """Records a host's facts; `keep` stores them. Returns a reason when the host may not take part: its hardware,
        kernel or builds changed, its class does not fit, or it has loads copied from another host, which would be
        counted as independent."""
        hosts = self.hosts
        before: Mapping[str, Any] = hosts[name].get("host") or {}
        now = report.environment.get("host", {})
        if what := changed(before, now):
            return f"{what} changed since the run began ({before[what]}, now {now.get(what)}): rounds not comparable"
        built, builds = _builds_of(hosts[name]), _builds_of(report.environment)
        if not (built <= builds or builds <= built):  # which cells it can run, and so which it builds, may differ
            return (
                f"builds changed since the run began ({', '.join(sorted(built - builds))}, now "
                f"{', '.join(sorted(builds - built))}): rounds not comparable"
            )
        of_class = hosts[name].get("class")
        if of_class is not None and not is_of_class(report.host_class, of_class):
            return (
                f"class changed since the run began ({of_class}, now {report.host_class}): rounds not comparable; if "
                f'OCTAVO_HOME is on the same disk as then, write class = "{of_class}" for it in the hosts file'
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
        """Adds facts and stores them."""
        self._facts |= facts
        self._stored = False
        self.keep()

    def keep(self) -> None:
        """Stores what was recorded since the last call. All of it is one document, written once for many hosts."""
        if not self._stored:
            self._store.set_environment(self._run, self._facts)
            self._stored = True


def _builds_of(facts: Mapping[str, Any]) -> set[str]:
    """The names of the builds in a host's facts, which have the digests of compiler and options."""
    return {str(build["name"]) for build in facts.get("builds") or ()}
