"""Scratch directories and servers, removed on exit: a new cluster of a build with PostgreSQL's own defaults."""

import os
import secrets
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import make_directory, octavo_home
from octavo.host import children, trees
from octavo.host.children import Account
from octavo.host.foreground import run_in_foreground
from octavo.host.journal import Journal
from octavo.host.safe_read import read_tail
from octavo.postgres import cluster
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.usage import user_environment
from octavo.postgres.cluster import Server
from octavo.postgres.own_connection import without_libpq
from octavo.text import one_line

# The database that initdb creates: a scratch server needs no other.
_DATABASE = "postgres"
# The variables of root's environment that root's psql gets: the search path, and how text is displayed and edited.
_SHOWN = ("PATH", "TERM", "TERMINFO", "COLUMNS", "LINES", "LANG", "TZ", "PAGER", "PSQL_PAGER", "LESS", "EDITOR",
          "VISUAL", "PSQL_EDITOR")  # fmt: skip
# The texts of strerror(3) for ENOSPC and EDQUOT. With less free space than a few WAL segments a disk is full.
_FULL = ("No space left on device", "Disk quota exceeded")
_LEAST_FREE_BYTES = 16 * 1024**2


def is_full(error: str, place: Path) -> bool:
    """Whether the disk is full, by the text of an error, by the logs in a directory of ours, or by what is free now."""
    texts = [error, *(read_tail(log) for log in place.glob("*.log"))]
    return any(words in text for words in _FULL for text in texts) or (
        shutil.disk_usage(place).free < _LEAST_FREE_BYTES
    )


@contextmanager
def scratch_directory(journal: Journal) -> Generator[Path, None, None]:
    """A new directory of ours, removed on exit in any case.

    Raises HostError instead of the error of what is tried in it when the disk is full.
    """
    work = make_directory(octavo_home() / "scratch") / secrets.token_hex(8)
    entry = journal.record("directory", path=str(work))
    try:
        yield make_directory(work)
    except (HostError, UsageError):
        raise
    except (OctavoError, psycopg.Error) as error:
        if is_full(str(error), work):
            told = one_line(cluster.without_log(error))
            raise HostError(
                f"{work.parent} has no room left ({told}); free some space there, then run the command again"
            ) from error
        raise
    finally:
        if trees.remove(work):
            journal.done(entry)


@contextmanager
def build_test(build: Build, test: str, journal: Journal) -> Generator[Path, None, None]:
    """A scratch directory for a test of the build. Raises OctavoError with its name when it fails the test, HostError
    when this host cannot run the test."""
    with scratch_directory(journal) as work:
        try:
            yield work
        except HostError:
            raise
        except (OctavoError, psycopg.Error) as error:
            raise OctavoError(f"{build.name} fails its {test}: {one_line(cluster.without_log(error))}") from error


@contextmanager
def scratch_server(
    build: Build, journal: Journal, account: Account, settings: Mapping[str, str], memory_group: Path | None = None
) -> Generator[Server, None, None]:
    """A running server on a new cluster, all of whose files are removed on exit in any case.

    It starts in the memory group, if there is one. Nothing is pinned: settings are PostgreSQL's defaults and those
    given. Raises OctavoError with the server's reason when it does not start, HostError when the disk is full or the
    account cannot reach the state directory.
    """
    with scratch_directory(journal) as work:
        cluster.check_reachable(work / "data", account)
        data = trees.make_for(work / "data", account)
        # A temporary cluster need not survive a power failure, so initdb does not sync it.
        arguments = [
            build.program("initdb"), "--pgdata", data, "--username", cluster.SUPERUSER, "--auth=trust",
            "--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync",
        ]  # fmt: skip
        cluster.run_initdb(arguments, journal, account)
        log = work / "server.log"
        try:
            server = cluster.start(build, data, settings, journal, account, log=log, memory_group=memory_group)
        except OctavoError as error:
            raise type(error)(cluster.without_log(error)) from error
        with server:
            yield server


def fill_with_pgbench(server: Server, scale: int) -> None:
    """Creates pgbench's tables at this scale in psql's default database. Raises OctavoError when it fails."""
    finished = server.run_client("pgbench", "--initialize", "--quiet", f"--scale={scale}", _DATABASE)
    children.check(finished, "pgbench --initialize")


def run_psql(server: Server, arguments: Sequence[str]) -> int:
    """Runs the build's psql on the user's terminal until the user quits. Returns its exit code.

    It runs as the user, with the user's \\i, \\copy, history and ~/.psqlrc, but without libpq's variables, which could
    redirect it. For root it runs as the server's account, confined like every child: it has the terminal, but of root's
    environment only the variables for displaying text there, and keeps no history.
    """
    environment = without_libpq(user_environment(server.build))
    if as_root := os.geteuid() == 0:
        shown = {name: value for name, value in environment.items() if name in _SHOWN or name.startswith("LC_")}
        environment = {**shown, "HOME": "/nonexistent", "PSQL_HISTORY": "/dev/null"}
    return run_in_foreground(
        [server.build.program("psql"), *arguments],
        server.journal,
        role="psql",
        environment={**environment, **server.client_environment(), "PGDATABASE": _DATABASE},
        account=server.account if as_root else None,
    )


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """Parses `NAME=VALUE` texts, as `postgres -c` accepts them. Raises UsageError for an invalid one.

    >>> parse_settings(["work_mem=64MB", "search_path=a,b=c"])
    {'work_mem': '64MB', 'search_path': 'a,b=c'}
    """
    settings: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"-c {text!r} is not a setting; write NAME=VALUE, such as work_mem=64MB")
        settings[name.strip()] = value
    return settings
