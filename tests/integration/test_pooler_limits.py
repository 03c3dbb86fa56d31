"""A user's server behind a pooler that ignores start-up options: our limits and read-only mode are still in force.
And a team's store behind a pooler that refuses them."""

import os
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from tests.integration.servers import data_directory, running
from tests.store_contract import a_trial, add_run

from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.io.from_query import blocks_of_query
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import DATABASE, SUPERUSER, Server
from octavo.postgres.user_connection import limited
from octavo.store.address import server_address
from octavo.store.listing import list_runs
from octavo.store.store import Store
from octavo.watch.connect import asker, connect
from octavo.workloads.pooled.pooler import program

_PORT = 6433
_SECONDS = 300.0


@pytest.fixture
def pooler(builds: dict[str, Build], journal: Journal, account: Account) -> Generator[str]:
    """A pgbouncer that ignores options and pools transactions on one connection; the DSN through it."""
    build = builds["8kB"]
    with data_directory(build, journal, account) as path, running(build, path, journal, account) as server:
        server.execute("CREATE TABLE visited AS SELECT i AS id, repeat('x', 40) FROM generate_series(1, 20000) AS i")
        server.execute("CREATE INDEX ON visited (id)")
        server.execute("VACUUM (FREEZE, ANALYZE) visited")
        asked = "pool_mode = transaction\ndefault_pool_size = 1\nignore_startup_parameters = options\n"
        with pooling(server, journal, account, asked):
            yield f"host={server.socket_directory} port={_PORT} user={SUPERUSER} dbname={DATABASE}"


@contextmanager
def pooling(server: Server, journal: Journal, account: Account, asked: str) -> Generator[None]:
    """A pgbouncer with these settings before the server, on its socket directory and a port of its own."""
    directory = server.socket_directory
    settings, log = directory / "pgbouncer.ini", directory / "pgbouncer.log"
    settings.write_text(
        f"[databases]\n{DATABASE} = host={directory} port={server.client_environment()['PGPORT']} "
        f"dbname={DATABASE} user={SUPERUSER}\n[pgbouncer]\nlisten_addr =\nlisten_port = {_PORT}\n"
        f"unix_socket_dir = {directory}\nauth_type = any\n{asked}"
    )
    os.chown(settings, account.uid, account.gid)
    with log.open("w") as output:
        process, entry = children.start(
            [program("pgbouncer"), "-q", settings], journal,
            role="pgbouncer", account=account, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        _wait_for(f"host={directory} port={_PORT} user={SUPERUSER} dbname={DATABASE}", process, log)
        yield
    finally:
        process.terminate()
        process.wait()
        journal.done(entry)
        for leftover in (settings, log, *directory.glob(f".s.PGSQL.{_PORT}*")):
            leftover.unlink(missing_ok=True)


def _wait_for(dsn: str, process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_the_limits_hold_and_nothing_of_ours_stays(pooler: str) -> None:
    with connect(pooler) as connection:
        assert connection.limits is not None, "the pooler took the options after all"
        with limited(connection, connection.limits):
            for setting, value in (
                ("statement_timeout", "500ms"),
                ("lock_timeout", "100ms"),
                ("transaction_read_only", "on"),
                ("search_path", "pg_catalog,pg_temp"),
            ):
                assert connection.execute("SELECT current_setting(%s) AS value", (setting,)).fetchone() == {
                    "value": value
                }
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), limited(connection, connection.limits):
            connection.execute("CREATE TABLE ours ()")
        assert asker(connection)("watched_server")
        with psycopg.connect(pooler, autocommit=True) as other:
            left = other.execute(
                "SELECT current_setting('statement_timeout'), current_setting('transaction_read_only'),"
                " current_setting('search_path')"
            ).fetchone()
        assert left == ("0", "off", '"$user", public'), "something of ours stays for the pooler's other clients"
    assert blocks_of_query("SELECT * FROM visited WHERE id < 100", pooler).blocks


def test_a_store_behind_a_pooler_in_session_mode(builds: dict[str, Build], journal: Journal, account: Account) -> None:
    """As docs/store.md has it, with PgBouncer's own defaults."""
    build = builds["8kB"]
    with data_directory(build, journal, account) as path, running(build, path, journal, account) as server:
        host = quote(str(server.socket_directory), safe="")
        address = server_address(f"postgresql://{SUPERUSER}@/{DATABASE}?host={host}&port={_PORT}")
        with pooling(server, journal, account, "pool_mode = session\n"), closing(Store.open(address)) as store:
            add_run(store, "one", status="running")
            store.claim("one")
            store.add_trial("one", a_trial())
            assert [(row["status"], row["trials"]) for row in list_runs(address)] == [("running", 1)]
