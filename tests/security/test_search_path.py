"""Another user of the database that a superuser has examined: its owner, and users who may create functions there."""

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.integration.servers import data_directory, running
from tests.integration.test_io_from_query import dsn

from octavo.doctor import examine
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.io.from_query import blocks_of_query
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server
from octavo.watch.connect import asker, connect, target_of

# What superusers can do and their functions must not do for others: run a program as the server's user.
_EVIL = """
CREATE FUNCTION {name}({arguments}) RETURNS text LANGUAGE plpgsql AS
$$BEGIN EXECUTE 'COPY (SELECT current_user) TO PROGRAM ''cat >> {mark}'''; RETURN {result}; END$$
"""


@pytest.fixture
def server(builds: dict[str, Build], journal: Journal, account: Account) -> Generator[Server]:
    build = builds["8kB"]
    with data_directory(build, journal, account) as path, running(build, path, journal, account) as server:
        server.execute("CREATE TABLE visited AS SELECT i AS id, repeat('x', 40) FROM generate_series(1, 20000) AS i")
        server.execute("CREATE INDEX ON visited (id)")
        server.execute("VACUUM (FREEZE, ANALYZE) visited")
        server.execute("CREATE ROLE app LOGIN")
        server.execute("ALTER DATABASE octavo OWNER TO app")
        server.execute("GRANT CREATE ON SCHEMA public TO app")  # everybody had it before PostgreSQL 15
        yield server


@pytest.fixture
def mark(server: Server) -> Path:
    """A file that exists once another user's function has run as the superuser."""
    mark = server.directory / "mark"
    made = {
        # Found before PostgreSQL's own, because of the path.
        "evil.current_setting": ("text", "pg_catalog.current_setting($1)"),
        "evil.set_config": ("text, text, bool", "pg_catalog.set_config($1, $2, $3)"),
        # Its argument types match the call better.
        "public.quote_ident": ("name", "pg_catalog.quote_ident($1)"),
    }  # fmt: skip
    with closing(psycopg.connect(f"{dsn(server)} user=app", autocommit=True)) as app:
        assert app.execute("SELECT current_setting('is_superuser')").fetchone() == ("off",)
        app.execute("CREATE SCHEMA evil")
        for name, (arguments, result) in made.items():
            app.execute(_EVIL.format(name=name, arguments=arguments, mark=mark, result=result).encode())
        app.execute("ALTER DATABASE octavo SET search_path = evil, public, pg_catalog")
    return mark


def test_what_others_made_does_not_run(server: Server, mark: Path) -> None:
    with connect(dsn(server)) as connection:
        assert connection.limits is None, "the session did not take them"
        target, facts = target_of(connection)
        assert facts["data_block"] == 8192
        query = asker(connection)
        for name in ("activity", "buffer_cache_schema", "database", "traced_wal", "traced_wal_inspect", "wal_end"):
            query(name)
        assert "visited" in [row["item"] for row in target.query("relations")]
        assert "visited" in [row["name"] for row in query("traced_relations")]
    patients, refused = examine.patients(dsn(server))
    assert (len(patients), refused) == (1, [])
    assert not mark.exists()


def test_a_query_of_the_users_means_what_it_means_to_the_user(server: Server, mark: Path) -> None:
    visited = blocks_of_query("SELECT * FROM visited WHERE id < 100", dsn(server))
    assert (visited.relation, visited.block) == ("public.visited", 8192)
    assert not mark.exists()
