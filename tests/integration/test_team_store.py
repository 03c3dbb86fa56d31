"""The store on a PostgreSQL server of our own builds: the same tests as on SQLite, and those of server features."""

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from tests.integration.servers import data_directory, running
from tests.store_contract import TO_THE_FIRST_VERSION, Sql, StoreContract, a_trial, add_run

from octavo.errors import HostError, OctavoError, StoreAwayError, UsageError
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.observation import Observation
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.series import Series
from octavo.store import address as address_module
from octavo.store.address import ServerAddress, server_address
from octavo.store.kept_trials import KeptTrials, new_identity
from octavo.store.listing import list_runs
from octavo.store.sender import TrialSender
from octavo.store.store import Store

ROOT = Path(__file__).parents[2]
PASSWORD = "Pa55word of the team's"  # of a role of these tests
_numbers = count(1)

pytestmark = pytest.mark.beside


@pytest.fixture(scope="module")
def module_journal(home: Path) -> Iterator[Journal]:
    with Journal() as opened:
        yield opened


@pytest.fixture(scope="module")
def team(builds: dict[str, Build], module_journal: Journal, account: Account) -> Iterator[Server]:
    """A server with the roles of docs/store.md; `anna` needs a password."""
    build = builds["8kB"]
    with data_directory(build, module_journal, account, "team-store") as directory:
        rules = "local all octavo trust\nlocal all all scram-sha-256\n"
        (directory / "pg_hba.conf").write_text(rules)
        with running(build, directory, module_journal, account, max_connections="50") as server:
            for statement in documented_sql():
                server.connection.execute(statement.encode())
            for role in ("anna", "reports"):
                server.connection.execute(
                    f"ALTER ROLE {role} PASSWORD '{PASSWORD.replace(chr(39), 2 * chr(39))}'".encode()
                )
            yield server


def documented_sql() -> list[str]:
    """The statements of docs/store.md for a DBA, without the one that creates the database, which already exists."""
    text = (ROOT / "docs" / "store.md").read_text()
    block = text.partition("```sql\n")[2].partition("```")[0]
    lines = "".join(line for line in block.splitlines(keepends=True) if not line.startswith("\\"))
    return [one for one in lines.split(";") if one.strip() and "CREATE DATABASE" not in one]


def url(server: Server, user: str = "octavo", options: str = "") -> str:
    asked = f"&options={quote(options)}" if options else ""
    return f"postgresql://{user}@/octavo?host={quote(str(server.socket_directory), safe='')}{asked}"


@pytest.fixture
def address(team: Server) -> ServerAddress:
    """A separate schema for the test."""
    schema = f"test{next(_numbers)}"
    team.connection.execute(f"CREATE SCHEMA {schema}".encode())
    return server_address(url(team, options=f"-csearch_path={schema}"))


@pytest.fixture
def store(address: ServerAddress) -> Iterator[Store]:
    opened = Store.open(address)
    yield opened
    opened.close()


@pytest.fixture
def sql(address: ServerAddress) -> Sql:
    def run(statement: str) -> list[tuple[Any, ...]]:
        with address.connect() as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def kept(tmp_path: Path) -> KeptTrials:
    return KeptTrials(tmp_path / "kept")


def ended(number: int, **changes: object) -> Any:
    """A trial that has just ended; higher numbers ended later."""
    seen = (Observation("tps", float(number), "1/s"),)
    return a_trial(identity=new_identity(), position=number, ended=float(number), observations=seen, **changes)


class TestOnPostgreSQL(StoreContract):
    """Runs the same tests as on SQLite."""


def test_a_database_without_a_place_for_all_characters_is_refused(team: Server) -> None:
    team.connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    latin = server_address(url(team).replace("/octavo?", "/latin?"))
    with pytest.raises(OctavoError, match=r"has the encoding LATIN1, .*; create one with ENCODING 'UTF8'"):
        Store.open(latin)
    assert list_runs(latin) == []


def test_a_migrated_store_has_the_columns_of_a_new_one(store: Store, address: ServerAddress, sql: Sql) -> None:
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = current_schema() ORDER BY 1, 2"
    )
    new = sql(columns)
    assert ("series", "trial", "bigint", "NO") in new
    for statement in TO_THE_FIRST_VERSION:
        sql(statement)
    with closing(Store.open(address)) as migrated:
        add_run(migrated, "one")
        sql(f"ALTER SEQUENCE trial_id_seq RESTART WITH {2**33}")
        went = Series.of("tps", "1/s", (0.5,), (0.1,))
        assert migrated.add_trial("one", a_trial(series=(went,))) == 2**33
        assert list(migrated.series([2**33])) == [(2**33, went)]
    assert sql(columns) == new


def test_a_claimed_run_is_running_until_its_coordinator_ends(store: Store, address: ServerAddress) -> None:
    add_run(store, "one", status="running", token="of another host")  # noqa: S106
    with closing(Store.open(address)) as coordinator:
        coordinator.claim("one")
        assert (list_runs(address)[0]["status"], store.run("one").status) == ("running", "running")
        with pytest.raises(UsageError, match="another coordinator is running one"):
            store.claim("one")
    store.claim("one")
    assert store.run("one").status == "running"


def test_a_claim_that_is_just_being_given_up_is_waited_for(store: Store, address: ServerAddress) -> None:
    """For example when a coordinator has ended, but the server has not noticed yet."""
    add_run(store, "one", status="running")
    with closing(Store.open(address)) as ending:
        ending.claim("one")
        giving_up = threading.Timer(0.3, ending.close)
        giving_up.start()
        store.claim("one")
        giving_up.join()
    assert store.run("one").status == "running"


def test_a_claim_outlasts_the_servers_limit_of_idle_sessions(team: Server) -> None:
    address = server_address(url(team, options="-csearch_path=idle -cidle_session_timeout=100ms"))
    team.connection.execute("CREATE SCHEMA idle")
    with closing(Store.open(address)) as coordinator:
        add_run(coordinator, "one", status="running")
        coordinator.claim("one")
        with closing(address.connect(autocommit=True)) as limited:  # began later, so that it ends later
            assert select.select([limited], [], [], 300.0)[0]
        assert list_runs(address)[0]["status"] == "running"


def test_a_trial_that_ends_while_the_server_is_down_arrives_later_once(
    team: Server, store: Store, address: ServerAddress, kept: KeptTrials
) -> None:
    add_run(store, "one", status="running")
    store.claim("one")
    sender = TrialSender(store, kept)
    assert sender.add("one", ended(1)) == 0
    waiting: list[int] = []

    def meanwhile() -> None:
        sender._away = True  # pyright: ignore[reportPrivateUsage]  # asked once, not waited for
        waiting.extend((sender.add("one", ended(2)), sender.add("one", ended(3))))
        with pytest.raises(StoreAwayError, match="does not respond"):
            store.add_trial("one", ended(9))
        with pytest.raises(HostError, match=r"cannot be read: .* does not respond"):
            list_runs(address)

    team.restart(meanwhile)
    assert waiting == [1, 2]
    assert sender.add("one", ended(4)) == 0
    assert [trial.position for trial in store.trials("one")] == [1, 2, 3, 4]
    assert len(kept) == 0
    assert store.run("one").status == "running"  # claimed again


def test_a_restarted_server_is_waited_for(team: Server, store: Store, kept: KeptTrials) -> None:
    add_run(store, "one")
    team.restart(lambda: None)
    store.set_status("one", "failed")
    assert store.run("one").status == "failed"
    assert TrialSender(store, kept).add("one", ended(1)) == 0


def test_a_session_that_is_ended_in_the_middle_stores_once(team: Server, store: Store, kept: KeptTrials) -> None:
    """A DBA repeatedly ends all sessions of ours while trials are sent."""
    add_run(store, "one")
    sender = TrialSender(store, kept)
    of_ours = "FROM pg_stat_activity WHERE application_name = 'octavo store'"
    stop = subprocess.Popen(
        [team.build.program("psql"), "-X", "-q", "-o", "/dev/null"],
        env={**os.environ, **team.client_environment()}, stdin=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert stop.stdin is not None
    stop.stdin.write(f"SELECT pg_terminate_backend(pid) {of_ours} \\watch 0.3")
    stop.stdin.close()
    try:
        for number in range(1, 61):
            sender.add("one", ended(number))
    finally:
        stop.terminate()
        stop.wait()
    sender.flush()
    assert [trial.position for trial in store.trials("one")] == list(range(1, 61))


def test_what_is_kept_for_another_store_stays(store: Store, kept: KeptTrials) -> None:
    kept.keep("of another store", ended(1))
    assert TrialSender(store, kept).flush() == 0
    assert len(kept) == 1


def test_the_role_for_reports_reads_and_writes_nothing(team: Server, tmp_path: Path) -> None:
    """With the statements of docs/store.md: anna's Octavo creates the tables, the role for reports reads them."""
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:*:{PASSWORD}\n")
    passwords.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSFILE", str(passwords))
        writer, reader = (server_address(url(team, role)) for role in ("anna", "reports"))
    with closing(Store.open(writer)) as store:
        add_run(store, "one")
        store.add_trial("one", ended(1))
    assert [row["trials"] for row in list_runs(reader)] == [1]
    with closing(Store.open_to_read(reader)) as store:
        assert len(store.trials("one")) == 1
    with closing(Store.open(reader)) as store, pytest.raises(OctavoError, match="is not writable"):
        store.add_trial("one", ended(2))
    assert PASSWORD not in repr(writer) + str(writer)


def test_commands_over_the_teams_store_tell_no_password(team: Server, home: Path, tmp_path: Path) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:*:{PASSWORD}\n")
    passwords.chmod(0o600)

    def octavo(*arguments: str, user: str = "anna", **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PGPASSFILE": str(passwords), "OCTAVO_STORE": url(team, user), **more}
        return subprocess.run(
            [sys.executable, "-m", "octavo", *arguments], capture_output=True, text=True, check=False, env=environment
        )

    table = tmp_path / "results.csv"
    table.write_text("bs,tps\n" + "".join(f"{size},{tps}\n" for size in (4, 8) for tps in (100 + size, 101 + size)))
    mapped = tmp_path / "map.toml"
    mapped.write_text(
        'name = "shop"\nquestion = "Which?"\nbaseline = { data_block = "8kB" }\n[factors]\n'
        'data_block = { column = "bs", unit = "kB" }\n[metrics.tps]\ncolumn = "tps"\nunit = "1/s"\nbetter = "higher"\n'
    )
    done = octavo("import", "csv", str(table), "--map", str(mapped))
    assert (done.returncode, done.stderr) == (0, "")
    runs = octavo("runs", "--format", "json", user="reports")
    found = [row for row in json.loads(runs.stdout) if row["name"] == "shop"]
    assert [(row["status"], row["trials"]) for row in found] == [("finished", 4)]
    run = found[0]["id"]
    said = octavo("report", run, user="reports")
    assert "4 kB" in said.stdout, said.stderr
    assert octavo("import", "csv", str(table), "--map", str(mapped)).returncode == 0
    both = octavo("compare", run, "last", user="reports")
    assert both.returncode in (0, 4), both.stderr
    site = octavo("report", "--site", str(tmp_path / "site"), user="reports")
    assert site.returncode == 0, site.stderr
    assert run in (tmp_path / "site" / "index.html").read_text()

    passwords.write_text("*:*:*:*:wrong\n")
    refused = octavo("runs")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "password authentication failed" in refused.stderr
    inside = octavo("runs", OCTAVO_STORE=url(team, f"anna:{quote(PASSWORD)}"))
    assert (inside.returncode, inside.stdout) == (2, "")
    assert "contains a password" in inside.stderr
    gone = octavo("runs", OCTAVO_STORE="postgresql:///octavo?host=/nowhere")
    assert gone.returncode == 3
    assert "does not respond" in gone.stderr
    told = [runs, said, both, site, refused, inside, gone, done]
    assert not any(PASSWORD in one.stdout + one.stderr or quote(PASSWORD) in one.stderr for one in told)
    assert not any("Traceback" in one.stderr for one in told)


def test_what_sqlalchemy_knows_has_no_password(store: Store) -> None:
    engine = store._engine  # pyright: ignore[reportPrivateUsage]
    assert engine.url.render_as_string(hide_password=False) == "postgresql+psycopg://"


def test_a_locked_table_is_named(store: Store, address: ServerAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    add_run(store, "one")
    monkeypatch.setitem(address_module._SETTINGS, "lock_timeout", "50ms")  # pyright: ignore[reportPrivateUsage]
    with closing(Store.open(address)) as waiting, closing(psycopg.connect(**address.parameters)) as other:
        other.execute("LOCK TABLE trial")
        with pytest.raises(HostError, match="another session has held a table"):
            waiting.add_trial("one", a_trial())
        other.rollback()
        waiting.add_trial("one", a_trial())
