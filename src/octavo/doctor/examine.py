"""Examining servers: one by its DSN, those of this host, a stopped one, or one that does not exist yet."""

import os
import re
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from octavo.doctor import report
from octavo.doctor.collect import gather
from octavo.doctor.collect.find import Listener, acting_as, avoid_users_mounts, listeners
from octavo.doctor.collect.server import LIMITS, OLDEST
from octavo.doctor.facts import Fact, Facts
from octavo.doctor.subjects import Subject, rules_on
from octavo.errors import HostError, OctavoError, UsageError
from octavo.host.in_time import in_time
from octavo.host.owner import owner_of
from octavo.postgres.own_connection import NO_PASSWORDS, forget_environment, peer_of
from octavo.postgres.server_answers import WRONG
from octavo.postgres.user_connection import UsersConnection, connect
from octavo.text import one_line

APPLICATION = "octavo doctor"
# Any user can listen on any number of sockets with such names, and never answer.
_MOST_SOCKETS = 100
_SLOW_SECONDS = 5.0
_MOST_SLOW, _MOST_SLOW_OF_A_USER = 20, 3
# The longest total wait for the answers of a server found by its socket, over all queries of one examination.
_MOST_WAITING_SECONDS = 30.0
# The longest time to examine it, not counting the time of watching: the paths that it names may not respond, either.
_MOST_LOOKING_SECONDS = 60.0
_SILENT = "others do not respond, and this one was not tried; give it with --dsn"
_PORT = re.compile(r"[0-9]{1,5}")
# Variables with which the caller directs libpq to a server.
_TOLD = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGPORT")


def rules_of(dsn: str | None, subject: Subject) -> list[dict[str, Any]]:
    """The results of a subject's rules for the server in the DSN, or the one that libpq finds, without watching it.

    Raises UsageError and HostError.
    """
    server = _connect(dsn)
    try:
        return rules_on(subject, server.facts(0.0))
    finally:
        server.close()


class ExaminedServer:
    """A server that is examined once or repeatedly. `owner`: the user of its socket, if it was found by that."""

    def __init__(self, name: str, connection: UsersConnection, owner: int | None = None) -> None:
        self.name = name
        self.connection = connection
        self.owner = owner
        self._stuck = False
        self._known: list[Fact] = []

    def look(self, seconds: float, more: Iterable[Fact] = ()) -> dict[str, Any]:
        """Examines the server now. `more`: facts known from elsewhere. Raises HostError like `facts`."""
        if self.owner is None:
            return self._look(seconds, more)
        try:
            if self._stuck:
                raise TimeoutError
            return in_time(lambda: self._look(seconds, more), seconds + _MOST_LOOKING_SECONDS)
        except TimeoutError:
            self._stuck = True
            raise HostError(f"{self.name}: the server, or its data directory, does not respond") from None

    def _look(self, seconds: float, more: Iterable[Fact]) -> dict[str, Any]:
        found = Facts([*self.facts(seconds).values(), *more])
        try:
            return report.part(self.name, found)
        except WRONG as error:
            raise HostError(self._not_postgres(error)) from error

    def facts(self, seconds: float) -> Facts:
        """Reads all facts now. Raises HostError when the server is gone, or its answers are not PostgreSQL's."""
        import psycopg

        self.connection.waited = 0.0
        try:
            facts = gather.of_server(self.connection, seconds, self._known)
        except psycopg.Error as error:
            raise HostError(f"{self.name}: the server no longer responds: {one_line(error)}") from None
        except WRONG as error:
            raise HostError(self._not_postgres(error)) from error
        # Also the reason why one is unknown: a query that was stopped after its time limit would take it at every look.
        self._known = [facts[name] for name in gather.DEAR]
        return facts

    def _not_postgres(self, error: Exception) -> str:
        return f"{self.name}: its responses are not PostgreSQL's ({type(error).__name__})"

    def close(self) -> None:
        """Ends the connection."""
        self.connection.close()


def look_at(
    patients: Sequence[ExaminedServer], seconds: float, more: Iterable[Fact] = ()
) -> Generator[dict[str, Any], None, None]:
    """Yields the report of each server. With several servers, one that is gone, or is not PostgreSQL, has a part with
    the problem.

    Raises HostError when it is the only one.
    """
    slow: Counter[int] = Counter()
    for patient in patients:
        if patient.owner is not None and _has_waited_enough(slow, patient.owner):
            yield _not_asked(patient.name, _SILENT)
            continue
        try:
            found = patient.look(seconds, more)
        except HostError as error:
            if len(patients) == 1:
                raise
            found = _not_asked(patient.name, str(error))
        if patient.owner is not None:
            slow[patient.owner] += patient.connection.waited > _SLOW_SECONDS
        yield found


def _has_waited_enough(slow: Counter[int], owner: int) -> bool:
    return slow[owner] >= _MOST_SLOW_OF_A_USER or slow.total() >= _MOST_SLOW


def patients(dsn: str | None) -> tuple[list[ExaminedServer], list[dict[str, Any]]]:
    """The servers to examine, and a part of the report for each one that cannot be examined.

    Raises UsageError and HostError when a server given by the user refuses, HostError when there is no server.
    """
    if dsn is not None or any(os.environ.get(name) for name in _TOLD):
        return [_connect(dsn)], []
    found = listeners()
    if not found:
        raise HostError(
            "no PostgreSQL server listens on a Unix socket of this host; give --dsn or --pgdata, or --before-start "
            "where there is none yet"
        )
    asked: dict[int, ExaminedServer] = {}
    refused: list[dict[str, Any]] = []
    slow: Counter[int] = Counter()
    for listener in _ordered(found)[:_MOST_SOCKETS]:
        if _has_waited_enough(slow, listener.owner):
            refused.append(_not_asked(str(listener), _SILENT))
            continue
        began = time.monotonic()
        try:
            patient = _connect_to(listener)
        except OctavoError as error:
            refused.append(_not_asked(str(listener), str(error)))
            continue
        finally:
            slow[listener.owner] += time.monotonic() - began > _SLOW_SECONDS
        # A server may listen in several directories. The pid is 0 if it is in another PID namespace.
        pid, _ = peer_of(patient.connection.fileno())
        if asked.setdefault(pid or -len(asked) - 1, patient) is not patient:
            patient.close()
    if len(found) > _MOST_SOCKETS:
        more = f"and {len(found) - _MOST_SOCKETS} more sockets were not examined; give a server with --dsn"
        refused.append(_not_asked(str(_ordered(found)[-1]), more))
    return list(asked.values()), refused


def _ordered(found: list[Listener]) -> list[Listener]:
    """Sockets of users with few of them come first, so that a user with many cannot hide the others."""
    by_owner = Counter(one.owner for one in found)
    return sorted(found, key=lambda one: by_owner[one.owner])


def _connect(dsn: str | None) -> ExaminedServer:
    import psycopg

    connection = connect(dsn, APPLICATION, LIMITS, OLDEST)
    try:
        return ExaminedServer(f"host={connection.info.host} port={connection.info.port}", connection)
    except psycopg.Error as error:  # it now reports its encoding, which it had not before
        connection.close()
        raise HostError(f"the server's responses are not PostgreSQL's: {error}") from None


def _connect_to(listener: Listener) -> ExaminedServer:
    """Connects to a found server, as root under its own user's name: by default that is the superuser's, and peer
    authentication accepts it.

    No password is sent, because the user has not named this server and anybody may listen there.
    """
    import pwd

    from psycopg.conninfo import make_conninfo

    user = None
    if os.geteuid() == 0:
        # The owner of the socket may be anybody: keep root's environment from him.
        forget_environment()
        try:
            user = pwd.getpwuid(listener.owner).pw_name
        except KeyError:
            raise HostError(f"{listener}: user {listener.owner} has no name") from None
    avoid_users_mounts(Path(listener.directory))
    # Do not import below: only root may have read access to Octavo's files.
    with acting_as(listener.owner):
        # Values are quoted: a directory may have any name.
        dsn = make_conninfo(
            host=listener.directory,
            hostaddr="",  # PGHOSTADDR and that of a service would take precedence over the socket
            port=listener.port,
            user=user,
            dbname="postgres",
            password="",
            passfile=NO_PASSWORDS,
        )
        try:
            found = _connect(dsn)
        except HostError as error:
            if "no password supplied" not in str(error):
                raise
            raise HostError(f"{listener} asks for a password; name the server with --dsn if it is yours") from None
    found.owner, found.connection.most_waiting = listener.owner, _MOST_WAITING_SECONDS
    return found


def _not_asked(name: str, problem: str) -> dict[str, Any]:
    from octavo.doctor.collect.host import host_facts

    unknown = "the server could not be examined"
    facts = Facts([*host_facts(), *(Fact(name, unknown=unknown) for name in ("setting.", "server.", "live.", "host."))])
    return report.part(name, facts, problem)


def on(pgdata: Path) -> ExaminedServer | None:
    """The server that runs on a data directory, or None when none is visible.

    Raises HostError when it cannot be examined, UsageError when one may run there but is not visible.
    """
    from octavo.hugepages.postmaster_files import running_on
    from octavo.hugepages.stopped import data_directory

    try:
        # Debian keeps the configuration apart from the data, where the lock file is.
        apart = (pgdata / "postgresql.conf").is_file() and not (pgdata / "PG_VERSION").exists()
        data = data_directory(pgdata) if apart else pgdata
        found = running_on(data) if (data / "postmaster.pid").exists() else None
        owner = owner_of(data.stat())
    except PermissionError as error:
        raise HostError(f"--pgdata {pgdata}: {error.strerror}; run as the server's user or as root") from None
    except OSError as error:
        raise UsageError(
            f"--pgdata {pgdata}: {error.strerror}; name the data directory, or use --before-start if there is none yet"
        ) from None
    # The server's user writes both the path and the port.
    if found is None or not found.socket.startswith("/") or "," in found.socket or not _PORT.fullmatch(found.port):
        return None
    return _connect_to(Listener(found.socket, int(found.port), owner))


def of_stopped(pgdata: Path, bindir: Path | None) -> dict[str, Any]:
    """The report on a cluster that does not run. Raises UsageError and HostError."""
    return report.part(f"{pgdata} (stopped)", gather.of_stopped(pgdata, bindir))


def of_program(program: Path) -> dict[str, Any]:
    """The report on a postgres program for AArch64, which need not be this machine's architecture. Raises
    UsageError."""
    return report.part(str(program), gather.of_program(program))


def before_start(shared_buffers: int, huge_pages: str) -> dict[str, Any]:
    """The report on this host, for a server that does not exist yet."""
    return report.part("before the start of a server", gather.before_start(shared_buffers, huge_pages, Path("/")))
