"""A run from its plan to its last trial: the host's lock, the journal, preparation, rounds, and how it ended."""

import json
import random
import secrets
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from octavo import __version__, workloads
from octavo.errors import HostError, Interrupted, UsageError
from octavo.home import make_directory, octavo_home, store_path
from octavo.host.facts import host_facts
from octavo.host.journal import Journal, recover
from octavo.host.lock import host_lock
from octavo.lab.bench import WallClock
from octavo.lab.estimate import estimate
from octavo.lab.events import Estimated, Notice, Notify
from octavo.lab.execute import Outcome, execute
from octavo.lab.postgres_bench import PostgresBench
from octavo.plan.cells import Cell, make_cells
from octavo.plan.model import Plan, restore_plan
from octavo.postgres.builds.cache import Build
from octavo.postgres.pinned import not_pinned, pinned_settings
from octavo.store.records import RunRecord
from octavo.store.store import Store


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended."""

    run: str
    outcome: Outcome


def start_run(plan: Plan, plan_text: str, repeat: str, seed: int | None, notify: Notify) -> Ended:
    """Runs a plan as a new run. Without a seed one is drawn, and stored. Raises OctavoError."""
    chosen = random.SystemRandom().randrange(1, 2**31) if seed is None else seed
    now = time.time()
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
    run = f"{stamp}-{plan.name}-{secrets.token_hex(2)}"
    cells = make_cells(plan)
    with _working(notify) as (journal, store):
        bench = PostgresBench(run, plan, workloads.find(plan.workload), journal, notify)
        record = RunRecord(
            id=run,
            name=plan.name,
            status="running",
            token=journal.token,
            seed=chosen,
            started=now,
            ended=None,
            plan=json.loads(plan.model_dump_json()),
            plan_text=plan_text,
            repeat=f"{repeat} --seed {chosen}" if seed is None else repeat,
            metrics=bench.metrics,
            environment={},
        )
        store.create_run(record, cells)
        return _work(run, plan, cells, chosen, bench, store, notify)


def resume_run(run: str, notify: Notify) -> Ended:
    """Goes on with a run that was stopped, with its own plan and seed. Raises UsageError when it is finished."""
    with _working(notify) as (journal, store):
        record = store.run(run)
        if record.status == "finished":
            raise UsageError(f"{run} is finished; octavo report {run} shows it")
        plan = restore_plan(record.plan)
        store.set_status(run, "running", token=journal.token)
        bench = PostgresBench(run, plan, workloads.find(plan.workload), journal, notify)
        return _work(run, plan, store.cells(run), record.seed, bench, store, notify)


@contextmanager
def _working(notify: Notify) -> Generator[tuple[Journal, Store], None, None]:
    """The host's lock, a journal and the store, opened together and closed in reverse.

    Who had the lock before may have been killed since this command began, so what it left is put right first.
    """
    with host_lock(), Journal() as journal, closing(Store.open(store_path())) as store:
        for line in recover():
            notify(Notice(line))
        yield journal, store


def _work(
    run: str, plan: Plan, cells: Sequence[Cell], seed: int, bench: PostgresBench, store: Store, notify: Notify
) -> Ended:
    try:
        ahead = estimate(plan, cells, workloads.find(plan.workload))
        notify(Estimated(ahead.prepare_seconds, ahead.trial_seconds, ahead.trials))
        bench.prepare(cells)
        _check_same_host(store.run(run), bench.builds)
        store.set_environment(run, _environment(plan, cells, bench.builds))
        outcome = execute(run, plan, cells, seed, bench, store, WallClock(), notify)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        with suppress(SQLAlchemyError):  # a full disk, say: the error that we have is the one to tell
            store.set_status(run, "interrupted" if interrupted else "failed", ended=time.time())
        if interrupted:
            raise Interrupted(f"interrupted; finished trials are kept, go on with: octavo run --resume {run}") from None
        if isinstance(error, HostError):
            raise HostError(f"{error}; then go on with: octavo run --resume {run}") from error
        raise
    store.set_status(run, "finished", ended=time.time())
    return Ended(run, outcome)


def _check_same_host(record: RunRecord, builds: Sequence[Build]) -> None:
    """Raises UsageError when a run is resumed where its rounds would not compare: another host, kernel or build."""
    if not record.environment:
        return
    before = record.environment
    now = {**host_facts(make_directory(octavo_home())), "builds": [build.name for build in builds]}
    then = {**before["host"], "builds": [build["name"] for build in before["builds"]]}
    for name in ("hostname", "kernel", "cpu", "builds"):
        if now[name] != then[name]:
            raise UsageError(
                f"{record.id} began with another {name} ({then[name]}, now {now[name]}): its rounds would not compare; "
                "start a new run"
            )


def _environment(plan: Plan, cells: Sequence[Cell], builds: Sequence[Build]) -> dict[str, Any]:
    return {
        "octavo": __version__,
        "host": host_facts(make_directory(octavo_home())),
        "builds": [
            {
                "name": build.name,
                **{
                    name: build.manifest[name]
                    for name in ("version", "data_block", "wal_block", "origin", "compiler", "options")
                },
            }
            for build in builds
        ],
        "pinned": _pinned(plan, cells),
        "not_pinned": not_pinned(),
    }


def _pinned(plan: Plan, cells: Sequence[Cell]) -> dict[str, str]:
    """The settings that every cell has, and those that differ from block size to block size as their range."""
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        settings = {**pinned_settings(cell.levels["version"], cell.levels["data_block"]), **plan.settings}
        for name, value in settings.items():
            values.setdefault(name, {})[value] = None
    return {name: " / ".join(found) for name, found in values.items()}
