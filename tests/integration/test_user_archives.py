"""A user's own database, from an archive of pg_dump, with his own scripts."""

import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.loads import RUN, ensure, row, serving
from tests.integration.servers import data_directory, running

from octavo.errors import OctavoError, UsageError
from octavo.home import make_directory
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.postgres.builds.cache import Build
from octavo.postgres.datasets import cache
from octavo.workloads import custom

pytestmark = [pytest.mark.beside, pytest.mark.usefixtures("empty_cache")]


SHOP = """
    CREATE ROLE keeper;
    CREATE SCHEMA shop AUTHORIZATION keeper;
    CREATE EXTENSION hstore;
    CREATE TABLE shop.orders (id int PRIMARY KEY, customer int NOT NULL, more hstore, note text);
    INSERT INTO shop.orders SELECT n, n % 100, hstore('n', n::text), repeat('x', 50) FROM generate_series(1, 5000) n;
    CREATE INDEX ON shop.orders (customer);
    ALTER TABLE shop.orders OWNER TO keeper;
    GRANT SELECT ON shop.orders TO keeper;
    ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;
    CREATE POLICY mine ON shop.orders FOR SELECT TO keeper USING (customer = 1);
"""


@pytest.fixture(scope="module")
def archives(home: Path, builds: dict[str, Build], account: Account) -> Iterator[Path]:
    """The same shop in each of pg_dump's formats, dumped from a server with the default block size."""
    place = make_directory(home / "archives", 0o700)
    with (
        Journal() as journal,
        data_directory(builds["8kB"], journal, account) as path,
        running(builds["8kB"], path, journal, account) as server,
    ):
        server.execute(SHOP)
        for form in ("custom", "directory", "plain", "tar"):
            target = server.socket_directory / form
            finished = server.run_client("pg_dump", f"--format={form}", f"--file={target}")
            assert finished.returncode == 0, finished.stderr
            shutil.move(target, place / form)
    (place / "look.sql").write_text("\\set c random(0, 99)\nSELECT count(*) FROM shop.orders WHERE customer = :c;\n")
    (place / "change.sql").write_text(
        "\\set n random(1, 5000)\nUPDATE shop.orders SET note = note || 'y' WHERE id = :n;\n"
    )
    yield place
    shutil.rmtree(place)


def shop(archives: Path, form: str = "custom", **changes: str) -> dict[str, str]:
    script = f"{archives}/look.sql@3 + {archives}/change.sql"
    return {**RUN, "archive": str(archives / form), "script": script, "age": "packed", **changes}


@pytest.mark.parametrize("form", ["custom", "directory", "plain", "tar"])
def test_a_users_own_database_and_scripts_run_at_another_block_size(
    form: str, archives: Path, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    levels = shop(archives, form, duration="3s")
    made = ensure(builds["32kB"], custom.WORKLOAD, levels, journal, account)
    with serving(made, journal, account) as server:
        good = "SELECT count(*) FILTER (WHERE more->'n' = id::text AND length(note) = 50) AS n FROM shop.orders"
        assert row(server, good)["n"] == 5000
        custom.WORKLOAD.warm(server, levels, 7)
        result = custom.WORKLOAD.run(server, levels, 7)
        assert result.problems == ()
        values = {observation.metric: observation.value for observation in result.observations}
        assert values["tps"] > 0
        assert 0 < values["latency_p50_ms"] <= values["latency_p95_ms"] <= values["latency_p99_ms"]
        assert 0 < values["latency_samples"] < values["transactions"] / 5
        shares = [int(share) for share in re.findall(r"- (\d+) transactions", result.output)]
        deviation = math.sqrt(0.75 * 0.25 / sum(shares))  # of the share, because each transaction is drawn
        assert shares[0] / sum(shares) == pytest.approx(0.75, abs=5 * deviation)
        assert [path.name for path in server.socket_directory.iterdir() if not path.name.startswith(".s.")] == []


def test_scripts_churn_a_users_database(
    archives: Path, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    levels = shop(archives, script=f"{archives}/change.sql", age="churned 2000 transactions")
    made = ensure(builds["8kB"], custom.WORKLOAD, levels, journal, account)
    with serving(made, journal, account) as server:
        assert row(server, "SELECT sum(length(note) - 50) AS changes FROM shop.orders")["changes"] == 2000


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("database version 18", "database version 99", "is from PostgreSQL 99, newer"),
        ("hstore", "nonesuch", "needs the extension nonesuch, which .* lacks"),
        ("\nCREATE TABLE", "\nALTER TABLE shop.nothing ADD x int;\nCREATE TABLE", '"shop.nothing" does not exist'),
    ],
)
def test_an_archive_that_cannot_be_restored_is_named(
    before: str,
    after: str,
    message: str,
    archives: Path,
    builds: dict[str, Build],
    journal: Journal,
    account: Account,
) -> None:
    (archives / "spoilt").write_text((archives / "plain").read_text().replace(before, after))
    with pytest.raises(OctavoError, match=message) as raised:
        ensure(builds["4kB"], custom.WORKLOAD, shop(archives, "spoilt"), journal, account)
    assert "\n" not in str(raised.value)
    assert cache.list_loads() == []


def test_a_damaged_archive_and_a_wrong_script_are_named(
    archives: Path, builds: dict[str, Build], journal: Journal, account: Account
) -> None:
    whole = (archives / "custom").read_bytes()
    (archives / "damaged").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OctavoError, match="restoring damaged failed"):
        ensure(builds["8kB"], custom.WORKLOAD, shop(archives, "damaged"), journal, account)
    (archives / "empty").write_text("-- nothing\n")
    with pytest.raises(UsageError, match="created no table"):
        ensure(builds["8kB"], custom.WORKLOAD, shop(archives, "empty"), journal, account)
    (archives / "wrong.sql").write_text("SELECT nonesuch;\n")
    levels = shop(archives, script=f"{archives}/wrong.sql")
    made = ensure(builds["8kB"], custom.WORKLOAD, levels, journal, account)
    with serving(made, journal, account) as server, pytest.raises(OctavoError, match="nonesuch"):
        custom.WORKLOAD.run(server, levels, 1)
