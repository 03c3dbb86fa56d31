"""A run from its plan to its last trial: the host's lock, the journal, preparation, rounds, and how it ended."""

import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from octavo import workloads
from octavo.errors import HostError, Interrupted, OctavoError, StoreAwayError, UsageError
from octavo.home import make_directory, octavo_home
from octavo.host.checks import check_host, disturbing
from octavo.host.checks.base import HostCounters
from octavo.host.facts import changed, host_facts
from octavo.host.journal import Journal, recover
from octavo.host.lock import host_lock
from octavo.lab.bench import WallClock
from octavo.lab.estimate import estimate
from octavo.lab.events import Estimated, Notice, Notify
from octavo.lab.execute import RunOutcome, execute
from octavo.lab.loads import room_for_loads
from octavo.lab.postgres_bench import PostgresBench
from octavo.lab.recall import recall_results
from octavo.lab.run_record import environment_of, extended, forecaster, new_run
from octavo.lab.runnable import left_out
from octavo.lab.slices.eligibility import refuse
from octavo.plan.cells import Cell, make_cells, with_defaults
from octavo.plan.impossible import refuse_impossible
from octavo.plan.model import Plan, restore_plan
from octavo.postgres.builds.cache import Build
from octavo.store.address import store_address
from octavo.store.records import RunRecord
from octavo.store.run_files import check_plan, checked_id, remember_plan
from octavo.store.sender import TrialSender
from octavo.store.store import Store
from octavo.text import one_line
from octavo.units import human_count

# Seconds that a stopped run waits for an unreachable store, to record that it has stopped.
_LAST_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class SessionResult:
    """How a session ended."""

    run: str
    outcome: RunOutcome


def start_run(
    plan: Plan, plan_text: str, repeat: str, seed: int | None, notify: Notify, *, since: HostCounters | None = None
) -> SessionResult:
    """Runs a plan as a new run. Without a seed one is drawn and stored. `since`: the host's counters at the begin of
    the command, from which on disturbances are recorded. Raises OctavoError."""
    cells = make_cells(plan)
    refuse_impossible(plan, cells)
    refuse(plan, workloads.find(plan.workload), cells)
    with _working(notify) as (journal, store):
        record = new_run(plan, plan_text, repeat, seed, journal.token, {})
        bench = PostgresBench(record.id, plan, workloads.find(plan.workload), journal, notify)
        remember_plan(store.address, record.id, record.plan, cells)
        store.create_run(record, cells)
        store.claim(record.id)
        with closing(bench):
            return _work(record, plan, cells, bench, store, notify, retry=False, since=since)


def resume_run(
    run: str, notify: Notify, *, budget: str | None = None, retry: bool = False, since: HostCounters | None = None
) -> SessionResult:
    """Continues a run that was stopped or can be extended, with its own plan and seed.

    `budget` replaces the plan's, includes what the run has measured, and lifts a limit of its rounds; `retry` first
    repeats failed and invalid trials;
    `since` is as in `start_run`. Raises UsageError when the run was imported, when its rounds would not be comparable
    here, when a shared store has another plan than the original one, and when it is finished and neither `budget` nor
    `retry` asks for more.
    """
    with _working(notify) as (journal, store):
        record = store.run(run)
        plan = restore_plan(record.plan)
        # Refuse before anything is stored: a run that cannot continue stays unchanged.
        _check_resumable(record, more=budget is not None or retry)
        cells = store.cells(run)
        check_plan(store.address, run, record.plan, cells)
        store.claim(run)
        workload = workloads.find(plan.workload)
        plan = extended(store, run, plan, cells, budget, retry=retry)
        cells = with_defaults(cells, plan)
        recall_results(workload, cells, store.trials(run, metrics=()))
        bench = PostgresBench(run, plan, workload, journal, notify)
        store.set_status(run, "running", token=journal.token)
        with closing(bench):
            return _work(record, plan, cells, bench, store, notify, retry=retry, since=since)


@contextmanager
def _working(notify: Notify) -> Generator[tuple[Journal, Store], None, None]:
    """Opens the host's lock, a journal and the store; closes them in reverse.

    An earlier holder of the lock may have been killed since this command began, so its leftovers are restored first.
    """
    with host_lock(), Journal() as journal, closing(Store.open(store_address())) as store:
        for line in recover():
            notify(Notice(line))
        if late := TrialSender(store, notice=lambda line: notify(Notice(line))).flush():
            notify(Notice(f"the store now has {human_count(late, 'trial')} that it missed while it did not respond"))
        yield journal, store


def _work(
    record: RunRecord,
    plan: Plan,
    cells: Sequence[Cell],
    bench: PostgresBench,
    store: Store,
    notify: Notify,
    *,
    retry: bool,
    since: HostCounters | None,
) -> SessionResult:
    run = record.id
    try:
        workload = workloads.find(plan.workload)
        skipped = left_out(cells, bench.cannot_run)
        able = [cell for cell in cells if cell.id not in skipped]
        ahead = estimate(plan, able, workload)
        notify(
            Estimated(
                ahead.prepare_seconds, ahead.trial_seconds, ahead.repeat_seconds, ahead.trials, plan.budget_seconds
            )
        )
        found = check_host(make_directory(octavo_home()), since=since)
        for one in disturbing(found):
            notify(Notice(f"warning: this host may disturb the run: {one}"))
        bench.prepare_builds(able)
        _check_same_builds(record, bench.builds)
        bench.prepare_host(able)
        # The parts of a round follow from the disk space at the first trial, so that a resumed run has the same ones.
        measured = any(trial.status != "skipped" for trial in store.trials(run, metrics=()))
        bench.room = (measured and record.environment.get("room_bytes")) or room_for_loads(workload, cells)
        environment = environment_of(plan, cells, bench.builds, found)
        names = {build["name"] for build in environment["builds"]}
        environment["builds"] += [build for build in record.environment.get("builds", ()) if build["name"] not in names]
        store.set_environment(run, {**environment, "room_bytes": bench.room})
        still_open = forecaster(record, plan, cells)
        outcome = execute(run, plan, cells, record.seed, bench, store, WallClock(), notify, still_open, retry=retry)
        TrialSender(store, notice=lambda line: notify(Notice(line))).flush()
        store.set_environment(run, {**store.run(run).environment, "ending": outcome.ending})
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        with suppress(OctavoError, SQLAlchemyError):  # a full disk, say: the error that we have is the one to tell
            # A run that may not be resumed here stays unchanged.
            refused = isinstance(error, UsageError) and _has_begun(record)
            status = "interrupted" if interrupted else record.status if refused else "failed"
            ended = record.ended if refused else time.time()
            if not isinstance(error, StoreAwayError):
                store.set_status(run, status, ended=ended, patience=_LAST_PATIENCE)
            if status == "failed" and not refused and not isinstance(error, StoreAwayError):
                store.set_environment(run, {**store.run(run).environment, "error": one_line(error)})
        if interrupted:
            raise Interrupted(
                f"interrupted; finished trials are stored; continue with: octavo run --resume {run}"
            ) from None
        if isinstance(error, OSError):  # a full disk, wherever it was met; a right that was taken away
            raise HostError(f"{error}; fix this, then continue with: octavo run --resume {run}") from error
        if isinstance(error, HostError):
            raise HostError(f"{error}; continue with: octavo run --resume {run}") from error
        raise
    store.set_status(run, "finished", ended=time.time())
    return SessionResult(run, outcome)


def _check_resumable(record: RunRecord, *, more: bool) -> None:
    """Raises UsageError for a run that cannot continue here. `more`: whether more is requested of a finished run."""
    checked_id(record.id)
    if "imported" in record.environment:
        raise UsageError(f"{record.id} was imported and cannot be continued; to show it: octavo report {record.id}")
    if record.environment.get("fleet"):
        raise UsageError(
            f"{record.id} was measured on a fleet; continue it there: octavo run --resume {record.id} "
            "--fleet HOSTS.toml (or --scheduler)"
        )
    if record.status == "finished" and not more:
        raise UsageError(
            f"{record.id} is finished; octavo report {record.id} shows it, octavo run --resume {record.id} --budget "
            f"TIME extends it to so much measuring in all, octavo run --retry-failed {record.id} repeats its failed "
            "trials"
        )
    if _has_begun(record):
        _check_same_host(record)


def _has_begun(record: RunRecord) -> bool:
    """Whether the run reached the check of its host and builds; one that failed earlier may have stored only its
    error."""
    return "host" in record.environment


def _check_same_host(record: RunRecord) -> None:
    """Raises UsageError when a run is resumed on another host or kernel, where its rounds would not be comparable."""
    before, now = record.environment["host"], host_facts(make_directory(octavo_home()))
    if name := changed(before, now):
        _check_same(record, name, before[name], now[name])


def _check_same_builds(record: RunRecord, builds: Sequence[Build]) -> None:
    """Raises UsageError when a run would be resumed with other builds.

    Builds that could not be made before, or whose cells cannot run now, are no reason: nothing was measured with them,
    or will be.
    """
    if _has_begun(record):
        before, now = {build["name"] for build in record.environment["builds"]}, {build.name for build in builds}
        if not before <= now and not now <= before:
            _check_same(record, "set of builds", sorted(before), sorted(now))


def _check_same(record: RunRecord, what: str, before: object, now: object) -> None:
    if before != now:
        raise UsageError(
            f"{record.id} began with another {what} ({before}, now {now}), so its rounds would not be comparable; "
            "start a new run"
        )
