"""Starting and stopping a fleet: the scheduler on this machine, a worker on every host of the file."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError, UsageError
from octavo.fleet import certificates, daemon
from octavo.host.journal import Journal
from octavo.remote.hosts_file import UNNAMED_CLASS, FleetFile, RemoteHost
from octavo.remote.ssh import HostAnswer, on_each
from octavo.store.set_aside import SetAside
from octavo.text import one_line

# The port of a host's worker when the file gives none.
_PORT = 8790
# The time limit in seconds for each command on a host; its worker has to start within that.
COMMAND_SECONDS = 120
_MOST_BYTES = 1024**2
_MOST_SET_ASIDE = 100
# Limits on a host's report: the number of disturbances, and the characters of a text.
_MOST_DISTURBED, _LONGEST = 50, 300
# What to install on a host where a version differs; everything else is Octavo's own.
_OTHERS = {"python": "Python", "distributed": "Dask (distributed)"}


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host as `fleet check` sees it. `problem`: one line that says why it cannot take part, or None."""

    name: str
    versions: dict[str, str]
    disturbed: list[str]
    problem: str | None


def scheduler_of(fleet: FleetFile) -> str:
    """The address of the scheduler. Raises UsageError when the file has none."""
    if fleet.scheduler is None:
        raise UsageError('the hosts file has no scheduler; write [fleet] and below it scheduler = "ADDRESS:8786"')
    return fleet.scheduler


def send_certificates(hosts: Sequence[RemoteHost]) -> list[HostAnswer]:
    """Makes a certificate for every host and sends it there; also makes one for this machine."""
    made = {host.name: json.dumps(certificates.issue(host.name)).encode() for host in hosts}
    certificates.issue(certificates.COORDINATOR)
    return ask_hosts(hosts, lambda _: ["install"], made)


def renew_authority(fleet: FleetFile) -> None:
    """Makes a new authority. Running processes accept the earlier authority's certificates until they end, so workers
    left on hosts are stopped. Raises UsageError while the fleet runs."""
    if certificates.has_authority():
        if daemon.running(daemon.SCHEDULER) is not None:
            raise UsageError(
                "the fleet is running, and would accept the earlier certificates until it is stopped; "
                "stop it first: octavo fleet stop"
            )
        _stop_workers(fleet)
    certificates.make_authority()


def check(hosts: Sequence[RemoteHost]) -> list[HostFacts]:
    """Returns the facts of the hosts, in their order. A host that differs from this Octavo has a `problem`."""
    from octavo.fleet.identity import versions

    ours, authority = versions(), certificates.authority_digest()
    return [_facts_of(answer, ours, authority) for answer in ask_hosts(hosts, lambda _: ["facts"])]


def _facts_of(answer: HostAnswer, ours: Mapping[str, str], authority: str | None = None) -> HostFacts:
    """Parses a host's answer, which may be anything. `ours`: the versions here. `authority`: the digest of this
    machine's authority."""
    name = answer.host.name
    if answer.failure is not None:
        return HostFacts(name, {}, [], answer.failure)
    try:
        facts: dict[str, Any] = json.loads(answer.output)
        theirs = {what: one_line(facts["versions"][what])[:_LONGEST] for what in ours}
        disturbed = [one_line(one)[:_LONGEST] for one in list(facts["disturbed"])[:_MOST_DISTURBED]]
        certificate = facts["certificate"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return HostFacts(name, {}, [], "the output is not Octavo's")
    unequal = [what for what in ours if theirs[what] != ours[what]]
    problem = None
    if unequal:
        what = unequal[0]
        same = _OTHERS.get(what, "Octavo")
        problem = f"another {what}: {theirs[what][:12]}, here {ours[what][:12]}; install the same {same}"
    elif not certificate:
        problem = "no valid certificate; octavo fleet init hosts.toml sends one"
    elif authority is not None and certificate != authority:
        problem = "a certificate of another authority; octavo fleet init hosts.toml sends a new one"
    return HostFacts(name, theirs, disturbed, problem)


def classes_of(hosts: Sequence[RemoteHost]) -> dict[str, str]:
    """The class of each host: from the file, or else from the host itself. Hosts that do not answer are left out."""
    named = {host.name: host.host_class for host in hosts if host.host_class != UNNAMED_CLASS}
    for answer in ask_hosts([host for host in hosts if host.name not in named], lambda _: ["class"]):
        if answer.failure is None:
            named[answer.host.name] = one_line(answer.output.decode(errors="replace"))[:63]
    return named


def set_aside_trials(hosts: Sequence[RemoteHost]) -> list[dict[str, str]]:
    """The trials that cannot be stored, on this machine (`host` is empty) and on the hosts that answer: `host`, `run`,
    `reason` and `file` of each."""
    found = [{"host": "", **row} for row in SetAside.of_this_home().rows()]
    for answer in ask_hosts(hosts, lambda _: ["set-aside"]):
        try:
            rows: list[dict[str, Any]] = [] if answer.failure is not None else json.loads(answer.output)
            found += [
                {"host": answer.host.name, **{key: one_line(row[key])[:_LONGEST] for key in ("run", "reason", "file")}}
                for row in rows[:_MOST_SET_ASIDE]
            ]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return found


@contextmanager
def used() -> Generator[None, None, None]:
    """Marks the fleet as used by this process, which restarts whatever ends of it; several processes may use it."""
    lock = _used_file()
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def is_used() -> bool:
    """Whether a run on this machine uses the fleet."""
    lock = _used_file()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _used_file() -> int:
    return os.open(certificates.directory() / "used.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def start(fleet: FleetFile, tell: Callable[[str], None]) -> bool:
    """Starts the scheduler, unless it is running, and the hosts' workers. Returns whether the scheduler is new.

    Raises HostError when no host can be started; `tell` is called for each host that cannot. On any error the scheduler
    and workers that it started are stopped: the worker of a host that answered too late may be running.
    """
    address = scheduler_of(fleet)
    new = daemon.running(daemon.SCHEDULER) is None
    with ExitStack() as undo:
        if new:
            undo.callback(stop_scheduler)
        start_scheduler(address)
        if new:
            undo.callback(_stop_workers, fleet)
        failed = start_workers(fleet)
        for name, problem in failed.items():
            tell(f"{name}: {problem}")
        if len(failed) == len(fleet.hosts):
            raise HostError(f"no host of the fleet could be started; the first error: {next(iter(failed.values()))}")
        undo.pop_all()
    return new


def start_scheduler(address: str) -> int:
    """Starts the scheduler here unless it is running. Returns its pid. Raises HostError."""
    certificates.paths_of(certificates.COORDINATOR)
    return daemon.start(daemon.SCHEDULER, address)


def start_workers(fleet: FleetFile, names: Sequence[str] | None = None) -> dict[str, str]:
    """Starts the workers of these hosts, or of all, unless they are running. Returns the errors by host."""
    address = scheduler_of(fleet)
    chosen = [host for host in fleet.hosts if names is None or host.name in names]

    def words(host: RemoteHost) -> list[str]:
        listen = host.listen or f"{host.address}:{_PORT}"
        return ["start", "--scheduler", address, "--listen", listen, "--name", host.name]

    return _failures(ask_hosts(chosen, words))


def stop(fleet: FleetFile) -> dict[str, str]:
    """Stops the workers, which restores their hosts' settings, and the scheduler. Returns the errors by host. Raises
    UsageError while a run uses them."""
    if is_used():
        raise UsageError(
            "a run uses the fleet, and would start it again; end that run first (Ctrl-C), then try again: "
            "octavo fleet stop"
        )
    failed = _stop_workers(fleet)
    stop_scheduler()
    return failed


def _stop_workers(fleet: FleetFile) -> dict[str, str]:
    return _failures(ask_hosts(fleet.hosts, lambda _: ["stop"]))


def stop_scheduler() -> None:
    """Stops the scheduler here and removes its scratch directory."""
    daemon.stop(daemon.SCHEDULER)
    shutil.rmtree(scheduler_scratch(), ignore_errors=True)


def scheduler_scratch() -> Path:
    """The scratch directory of Dask's scheduler, removed when it stops."""
    return certificates.directory() / "dask-scheduler"


def ask_hosts(
    hosts: Sequence[RemoteHost],
    words: Callable[[RemoteHost], Sequence[str]],
    inputs: Mapping[str, bytes] | None = None,
) -> list[HostAnswer]:
    """Runs `octavo fleet host` with these words on every host. Returns the answers in the order of the hosts."""

    def command(host: RemoteHost) -> list[str]:
        return [*host.octavo, "fleet", "host", *words(host)]

    with Journal() as journal:
        answers = on_each(hosts, command, journal, seconds=COMMAND_SECONDS, most_bytes=_MOST_BYTES, inputs=inputs)
        by_name = {answer.host.name: answer for answer in answers}
    return [by_name[host.name] for host in hosts]


def _failures(answers: Sequence[HostAnswer]) -> dict[str, str]:
    return {answer.host.name: answer.failure for answer in answers if answer.failure is not None}
