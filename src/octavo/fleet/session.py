"""A run on a fleet from its plan to its last trial, on the coordinator's side."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from octavo import __version__
from octavo.errors import HostError, Interrupted, OctavoError, UsageError
from octavo.fleet.builds import spread
from octavo.fleet.crew import HostCrew, HostNotes
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.identity import package_digest
from octavo.fleet.on_postgres import on_postgres
from octavo.fleet.orders import Prepare, RunOrder
from octavo.fleet.rounds import FleetRounds
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
from octavo.store.run_files import check_plan, remember_plan, run_directory
from octavo.store.set_aside import SetAside
from octavo.store.store import PATIENCE, Store
from octavo.text import one_line


@dataclass(frozen=True, slots=True)
class FleetChoice:
    """The fleet that a run uses.

    `hosts`: the connection to the scheduler. `expected`: the hosts that the run waits for, up to `patience` seconds;
    others may join. `prepare` prepares a host. `classes`: the known classes by host. `option`: the option of `octavo
    run` that names the fleet.
    """

    hosts: DaskHosts
    expected: tuple[str, ...] = ()
    patience: float = 600.0
    prepare: Prepare = on_postgres
    classes: Mapping[str, str] = field(default_factory=dict[str, str])
    option: str = "--fleet HOSTS.toml"


def start_fleet_run(
    plan: Plan, plan_text: str, repeat: str, seed: int | None, choice: FleetChoice, notify: Notify
) -> SessionResult:
    """Runs a plan as a new run on a fleet. Without a seed it draws one and stores it. Raises OctavoError."""
    cells = make_cells(plan)
    refuse_impossible(plan, cells)
    with _working(notify) as (journal, store):
        environment: dict[str, Any] = {"octavo": __version__, "fleet": {}}
        record = new_run(plan, plan_text, repeat, seed, journal.token, environment)
        run_directory(record.id)  # for its report
        remember_plan(store.address, record.id, record.plan, cells)
        store.create_run(record, cells)
        store.claim(record.id)
        return _work(record, plan, cells, choice, store, notify)


def resume_fleet_run(
    run: str, choice: FleetChoice, notify: Notify, *, budget: str | None = None, retry: bool = False
) -> SessionResult:
    """Continues a run of a fleet with its own plan and seed. `retry` first repeats failed and invalid trials.

    Raises UsageError when the run was not on a fleet, when a shared store has another plan than the original one, and
    when it is finished and neither `budget` nor `retry` asks for more.
    """
    with _working(notify) as (journal, store):
        record = store.run(run)
        if "fleet" not in record.environment:
            raise UsageError(f"{run} was measured on one host; continue it there: octavo run --resume {run}")
        if record.status == "finished" and budget is None and not retry:
            raise UsageError(
                f"{run} is finished; octavo report {run} shows it, --budget TIME with the same command extends it to "
                f"so much measuring in all, --retry-failed {run} instead of --resume repeats its failed trials"
            )
        cells = store.cells(run)
        check_plan(store.address, run, record.plan, cells)
        store.claim(run)
        plan = extended(store, run, restore_plan(record.plan), cells, budget, retry=retry)
        store.set_status(run, "running", token=journal.token)
        # Hosts get the plan as it is now: an extended run may use further loads.
        return _work(store.run(run), plan, with_defaults(cells, plan), choice, store, notify, retry=retry)


@contextmanager
def _working(notify: Notify) -> Generator[tuple[Journal, Store], None, None]:
    """Opens a journal, whose token marks the run as active, and the store. Nothing is measured on this machine."""
    with Journal() as journal, closing(Store.open(store_address())) as store:
        for line in recover():
            notify(Notice(line))
        yield journal, store


def _work(
    record: RunRecord, plan: Plan, cells: Sequence[Cell], choice: FleetChoice, store: Store, notify: Notify, *,
    retry: bool = False,
) -> SessionResult:  # fmt: skip
    run = record.id
    hosts = choice.hosts
    environment = HostNotes(store, run)
    known = store.trials(run)
    identities = {trial.identity for trial in known}
    planned = {cell.id for cell in cells}

    def refused(trial: TrialRecord, reason: str) -> None:
        notify(Notice(SetAside.of_this_home().put_trial(run, trial, reason)))

    def commit(records: Sequence[TrialRecord]) -> list[TrialRecord]:
        """Stores each trial once, however often it is sent. Returns the new ones, which are in the store by then. A
        trial that can never be stored is set aside, so that the others are stored."""
        new = [one for one in records if one.identity not in identities]
        for one in new:
            if one.cell not in planned:
                refused(one, f"the run has no cell {one.cell}")
        stored = store.add_storable_trials(run, [one for one in new if one.cell in planned], PATIENCE, refused)
        identities.update(one.identity for one in new)
        return stored

    def order(host: str, number: int, room: int | None) -> RunOrder:
        return RunOrder(
            run, record.plan, tuple(cells), record.seed, host, number, package_digest(), choice.prepare, room,
            choice.classes.get(host),
        )  # fmt: skip

    numbers = environment.numbers
    for name in choice.expected:
        numbers.setdefault(name, 1 + max(numbers.values(), default=0))
    crew = HostCrew(environment, hosts, order)
    rounds = FleetRounds(
        run, plan, cells, record.seed, numbers, hosts, crew, known, commit, forecaster(record, plan, cells),
        WallClock(), notify, choice.patience,
    )  # fmt: skip
    if retry:
        rounds.retry()
    try:
        if choice.prepare is on_postgres:
            spread(hosts, choice.expected, plan.workload, cells, choice.classes, notify)
        try:
            outcome = rounds.work()
        finally:
            if busy := rounds.busy:
                hosts.narrow(run, (), busy)
            if rest := [one for one in hosts.finish(run, rounds.stored) if one.delivery.trials]:
                rounds.take_rest(rest)
                hosts.finish(run, rounds.stored, frozenset(one.host for one in rest))
        environment.note(ending=outcome.ending)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        with suppress(OctavoError, SQLAlchemyError):
            store.set_status(run, "interrupted" if interrupted else "failed", ended=time.time())
            if not interrupted:
                environment.note(error=one_line(error))
        again = f"continue with: octavo run --resume {run} {choice.option}"
        if interrupted:
            raise Interrupted(f"interrupted; finished trials are stored; {again}") from None
        if isinstance(error, OSError | HostError):
            raise HostError(f"{error}; {again}") from error
        raise
    store.set_status(run, "finished", ended=time.time())
    return SessionResult(run, outcome)
