"""`octavo run --fleet` and `--scheduler`: finds or starts the fleet, runs, and leaves the fleet as it was."""

import shlex
import threading
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.fleet import launch
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.on_postgres import on_postgres
from octavo.fleet.orders import Prepare
from octavo.fleet.session import FleetChoice, resume_fleet_run, start_fleet_run
from octavo.lab.events import Notice, Notify
from octavo.lab.runnable import class_here
from octavo.lab.session import SessionResult
from octavo.plan.checks import checked
from octavo.plan.factors import HOST_CLASS
from octavo.plan.model import Plan, known_factors
from octavo.remote.hosts_file import FleetFile, read_fleet

# Seconds between two attempts to start the worker of a host that is away.
_BETWEEN_STARTS = 5.0


@dataclass(frozen=True, slots=True)
class FleetTarget:
    """A hosts file, or the scheduler of an existing Dask cluster."""

    file: Path | None
    scheduler: str | None

    @property
    def option(self) -> str:
        """The option of `octavo run` that names this target."""
        words = ("--fleet", str(self.file)) if self.file is not None else ("--scheduler", self.scheduler or "")
        return shlex.join(words)


def start(
    target: FleetTarget,
    plan: Plan,
    plan_text: str,
    repeat: str,
    seed: int | None,
    notify: Notify,
    *,
    prepare: Prepare = on_postgres,
) -> SessionResult:
    """Runs a plan as a new run on the target. `prepare` prepares a host. Raises OctavoError."""
    with _opened(target, prepare, notify) as choice:
        return start_fleet_run(by_class(plan, choice.classes, notify), plan_text, repeat, seed, choice, notify)


def resume(
    target: FleetTarget,
    run: str,
    budget: str | None,
    notify: Notify,
    *,
    retry: bool = False,
    prepare: Prepare = on_postgres,
) -> SessionResult:
    """Continues a run on the target. `retry` first repeats failed and invalid trials. Raises OctavoError."""
    with _opened(target, prepare, notify) as choice:
        return resume_fleet_run(run, choice, notify, budget=budget, retry=retry)


def by_class(plan: Plan, classes: Mapping[str, str], notify: Notify) -> Plan:
    """Adds the classes of the hosts to the plan as levels, if there are several and the plan has no such factor: each
    is analysed separately. Raises UsageError when they cannot be levels."""
    found = sorted(set(classes.values()))
    if len(found) < 2 or HOST_CLASS in plan.factors:
        return plan
    notify(Notice(f"the hosts are of {len(found)} classes, each analysed separately: {', '.join(found)}"))
    return checked(plan, known_factors(plan.workload), {HOST_CLASS: found})


@contextmanager
def _opened(target: FleetTarget, prepare: Prepare, notify: Notify) -> Generator[FleetChoice, None, None]:
    if target.file is None:
        assert target.scheduler is not None
        with closing(DaskHosts.of_others(target.scheduler)) as hosts:
            if not (names := tuple(sorted(hosts.wait_for((), 0.0)))):
                raise HostError(
                    f"no worker of {target.scheduler} has the resource bench; start them with: "
                    "dask worker --nthreads 1 --no-nanny --resources bench=1"
                )
            classes = hosts.ask_all(class_here)
            yield FleetChoice(hosts, names, prepare=prepare, classes=classes, option=target.option)
        return
    fleet = read_fleet(target.file)
    address = launch.scheduler_of(fleet)
    new = False
    try:
        with launch.used():
            new = launch.start(fleet, lambda line: notify(Notice(line)))
            with closing(DaskHosts(address, lambda: _revive(address))) as hosts, _kept_up(fleet, hosts):
                names = tuple(host.name for host in fleet.hosts)
                classes = launch.classes_of(fleet.hosts)
                yield FleetChoice(hosts, names, fleet.patience, prepare, classes, target.option)
    finally:
        if new and launch.is_used():
            notify(Notice("the fleet is left running, because another run uses it; octavo fleet stop stops it"))
        elif new:
            for name, problem in launch.stop(fleet).items():
                notify(Notice(f"{name}: {problem}; run octavo host restore on it"))


def _revive(address: str) -> None:
    launch.start_scheduler(address)


@contextmanager
def _kept_up(fleet: FleetFile, hosts: DaskHosts) -> Generator[None, None, None]:
    """Restarts workers on hosts that are away, as long as the run lasts."""
    over = threading.Event()

    def keep() -> None:
        while not over.wait(_BETWEEN_STARTS):
            if away := [host.name for host in fleet.hosts if host.name not in hosts.present()]:
                with suppress(OctavoError, OSError):  # for example a full disk here: try again later
                    launch.start_workers(fleet, away)

    thread = threading.Thread(target=keep, name="keeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(launch.COMMAND_SECONDS)
