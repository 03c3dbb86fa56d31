"""A run on a fleet from its plan to its last trial, as the coordinator goes through it."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from octavo import __version__
from octavo.errors import HostError, Interrupted, OctavoError, UsageError
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.identity import package_digest
from octavo.fleet.on_postgres import on_postgres
from octavo.fleet.orders import Prepare, Report, RunOrder
from octavo.fleet.rounds import FleetRounds
from octavo.home import make_directory, octavo_home
from octavo.host.journal import Journal, recover
from octavo.lab.bench import WallClock
from octavo.lab.events import Notice, Notify
from octavo.lab.run_record import extended, forecaster, new_run
from octavo.lab.session import SessionResult
from octavo.plan.cells import Cell, make_cells, with_defaults
from octavo.plan.impossible import refuse_impossible
from octavo.plan.model import Plan, restore_plan
from octavo.store.address import store_address
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import PATIENCE, Store

# What must be the same when a host takes part again: else its rounds would not compare.
_SAME = ("hostname", "kernel", "cpu")


@dataclass(frozen=True, slots=True)
class FleetChoice:
    """Where a run goes: the scheduler, the hosts that it waits for (none: those that are there at first), for how many
    seconds it waits for one that is away, and how a host is made ready."""

    hosts: DaskHosts
    expected: tuple[str, ...] = ()
    patience: float = 600.0
    prepare: Prepare = on_postgres


def start_fleet_run(
    plan: Plan, plan_text: str, repeat: str, seed: int | None, choice: FleetChoice, notify: Notify
) -> SessionResult:
    """Runs a plan as a new run on a fleet. Without a seed one is drawn, and stored. Raises OctavoError."""
    cells = make_cells(plan)
    refuse_impossible(plan, cells)
    with _working(notify) as (journal, store):
        environment: dict[str, Any] = {"octavo": __version__, "fleet": {}}
        record = new_run(plan, plan_text, repeat, seed, journal.token, environment)
        store.create_run(record, cells)
        store.claim(record.id)
        make_directory(octavo_home() / "runs" / record.id)  # its report's place
        return _work(record, plan, cells, choice, store, notify)


def resume_fleet_run(run: str, choice: FleetChoice, notify: Notify, *, budget: str | None = None) -> SessionResult:
    """Goes on with a run of a fleet, with its own plan and seed. Raises UsageError when it was none, or is finished."""
    with _working(notify) as (journal, store):
        record = store.run(run)
        if "fleet" not in record.environment:
            raise UsageError(f"{run} was measured on one host; go on with it there: octavo run --resume {run}")
        if record.status == "finished" and budget is None:
            raise UsageError(f"{run} is finished; octavo report {run} shows it; --budget gives it more time")
        store.claim(run)
        plan = extended(store, run, restore_plan(record.plan), budget)
        store.set_status(run, "running", token=journal.token)
        return _work(record, plan, with_defaults(store.cells(run), plan), choice, store, notify)


@contextmanager
def _working(notify: Notify) -> Generator[tuple[Journal, Store], None, None]:
    """A journal, whose token says that the run is worked on, and the store. Nothing is measured on this machine."""
    with Journal() as journal, closing(Store.open(store_address())) as store:
        for line in recover():
            notify(Notice(line))
        yield journal, store


def _work(
    record: RunRecord, plan: Plan, cells: Sequence[Cell], choice: FleetChoice, store: Store, notify: Notify
) -> SessionResult:
    run = record.id
    hosts = choice.hosts
    environment = HostNotes(store, run)
    known = store.trials(run)
    identities = {trial.identity for trial in known}

    def commit(records: Sequence[TrialRecord]) -> list[TrialRecord]:
        """Each once, however often it is sent: those that are new here, which the store has when this returns."""
        new = [one for one in records if one.identity not in identities]
        ids = store.add_trials(run, new, PATIENCE) if new else []
        identities.update(one.identity for one in new)
        return [replace(one, id=number) for one, number in zip(new, ids, strict=True)]

    def begin(host: str, number: int) -> None:
        environment.number(host, number)
        room = environment.hosts[host].get("room_bytes")
        hosts.begin(
            RunOrder(run, record.plan, tuple(cells), record.seed, host, number, package_digest(), choice.prepare, room)
        )

    numbers = environment.numbers
    for name in choice.expected:
        numbers.setdefault(name, 1 + max(numbers.values(), default=0))
    rounds = FleetRounds(
        run, plan, cells, record.seed, numbers, hosts, known, commit, environment.began, begin,
        forecaster(record, plan, cells), WallClock(), notify, choice.patience,
    )  # fmt: skip
    try:
        try:
            outcome = rounds.work()
        finally:
            rounds.take_rest(hosts.collect(run, rounds.have))
        hosts.finish(run, rounds.have)
        environment.note(ending=outcome.ending)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        with suppress(OctavoError, SQLAlchemyError):
            store.set_status(run, "interrupted" if interrupted else "failed", ended=time.time())
            if not interrupted:
                environment.note(error=" ".join(str(error).split()))
        again = f"go on with: octavo run --resume {run} --fleet hosts.toml"
        if interrupted:
            raise Interrupted(f"interrupted; finished trials are kept, {again}") from None
        if isinstance(error, OSError | HostError):
            raise HostError(f"{error}; then {again}") from error
        raise
    store.set_status(run, "finished", ended=time.time())
    return SessionResult(run, outcome)


class HostNotes:
    """What is stored of the hosts: what each is, by name, and beside it what reports show of a host, of the first."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run
        self._facts = dict(store.run(run).environment)

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """By name: its number in the run, the room of its datasets, and what it is."""
        return dict(self._facts.get("fleet", {}))

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each host in this run."""
        return {name: host["number"] for name, host in self.hosts.items()}

    def number(self, name: str, number: int) -> None:
        """Notes a host's number."""
        hosts = self.hosts
        if name not in hosts or hosts[name].get("number") != number:
            self.note(fleet={**hosts, name: {**hosts.get(name, {}), "number": number}})

    def began(self, name: str, report: Report) -> str | None:
        """Notes what a host is; why it may not take part, when it is another one than before."""
        hosts = self.hosts
        before: Mapping[str, Any] = hosts[name].get("host", {})
        now = report.environment.get("host", {})
        for what in _SAME:
            if what in before and before[what] != now.get(what):
                return f"it began with another {what} ({before[what]}, now {now.get(what)}): rounds would not compare"
        for other in hosts.values():
            if "host" in other and class_of(other["host"]) != class_of(now):
                return (
                    f"it is of another class ({class_of(now)}, the others {class_of(other['host'])}): effects may "
                    "differ with it; run each class as a fleet of its own"
                )
        hosts[name] = {
            **hosts[name],
            "room_bytes": report.room,
            **{key: report.environment.get(key) for key in _OF_A_HOST},
        }
        shared = {key: value for key, value in report.environment.items() if key != "octavo"}
        first = all("host" not in other for of, other in hosts.items() if of != name)
        self.note(fleet=hosts, **(shared if first else {}))
        return None

    def note(self, **facts: Any) -> None:
        """Adds to what is stored."""
        self._facts |= facts
        self._store.set_environment(self._run, self._facts)


_OF_A_HOST = ("host", "host_checks", "builds")


def class_of(host: Mapping[str, Any]) -> str:
    """Architecture and kernel page of a host: where they differ, so may every effect of a page size.

    >>> class_of({"kernel": "Linux 6.12 aarch64", "page_stack": [{"layer": "CPU memory page", "value": "64kB"}]})
    'aarch64, 64kB kernel pages'
    """
    machine = str(host.get("kernel", "")).rpartition(" ")[2] or "unknown"
    pages = [str(layer["value"]) for layer in host.get("page_stack", ()) if layer["layer"] == "CPU memory page"]
    return f"{machine}, {pages[0] if pages else 'unknown'} kernel pages"
