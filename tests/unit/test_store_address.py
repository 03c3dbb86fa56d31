import os
from pathlib import Path

import pytest

from octavo.errors import UsageError
from octavo.postgres.own_connection import forget_environment
from octavo.store.address import ServerAddress, server_address, store_address


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    server_address.cache_clear()
    for name in (
        "PGPASSFILE", "PGSSLMODE", "PGPASSWORD", "PGHOST", "PGOPTIONS", "PGSERVICE", "PGSERVICEFILE", "OCTAVO_STORE",
    ):  # fmt: skip
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_without_the_variable_it_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    assert store_address() == tmp_path / "octavo.sqlite"


@pytest.mark.parametrize(
    "url", ["", "sqlite:///x", "host=a password=hidden", "postgresql://a:hid/den@b/c", "postgresql://%zz/", "hidden"]
)
def test_what_is_no_url_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(UsageError, match="write postgresql://user@host/database") as error:
        server_address(url)
    assert "hid" not in str(error.value).replace("OCTAVO_STORE", "")


@pytest.mark.parametrize("url", ["postgresql://me:hidden@h/d", "postgresql://me@h/d?password=hidden"])
def test_a_password_in_it_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="contains a password") as error:
        server_address(url)
    assert "hidden" not in str(error.value)


def test_the_passphrase_of_a_key_is_refused_too() -> None:
    with pytest.raises(UsageError, match=r"contains sslpassword, .* put it into a service file") as error:
        server_address("postgresql://me@h/d?sslkey=/k&sslpassword=hidden")
    assert "hidden" not in str(error.value)


def test_what_libpqs_variables_say_is_kept_when_they_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts a server of ours forgets them, and stores the trial after that."""
    for name, value in {"PGPASSFILE": "/x/pgpass", "PGSSLMODE": "verify-full", "PGPASSWORD": "hidden"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OCTAVO_STORE", "postgresql://me@stores:5433/octavo?options=-csearch_path%3Dteam")
    first = store_address()
    forget_environment()
    assert store_address() is first
    assert isinstance(first, ServerAddress)
    asked = first.parameters
    assert (asked["passfile"], asked["sslmode"], asked["password"]) == ("/x/pgpass", "verify-full", "hidden")
    assert (asked["user"], asked["options"]) == ("me", "-csearch_path=team")
    assert str(first) == "postgresql://stores:5433/octavo"
    assert "hidden" not in repr(first)


def test_a_connection_begins_with_no_options_of_ours() -> None:
    """PgBouncer refuses them, also in session mode: "unsupported startup parameter"."""
    assert "options" not in server_address("postgresql://me@h/d").parameters


@pytest.mark.parametrize(("url", "variable"), [("postgresql:///", "team"), ("postgresql:///?service=team", "other")])
def test_a_service_is_kept_when_the_variable_of_its_file_is_forgotten(
    url: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq looks it up again at each connection, as after a restart of the store."""
    file = tmp_path / "services"
    file.write_text("[team]\nhost=stores\nport=5433\ndbname=octavo\nuser=anna\nsslpassword=hidden\nsslmode=require\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGSERVICE", variable)
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    address = server_address(url)
    assert os.environ["PGSERVICE"] == variable
    asked = address.parameters
    assert "service" not in asked
    assert (asked["host"], asked["user"], asked["sslpassword"]) == ("stores", "anna", "hidden")
    assert asked["sslmode"] == "require"  # it overrides the variable
    assert str(address) == "postgresql://stores:5433/octavo"
    assert "hidden" not in repr(address)
    assert server_address(f"postgresql://bob@elsewhere/{url[14:]}").parameters["user"] == "bob"


def test_a_service_that_is_not_found_is_left_to_libpq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "none"))
    assert server_address("postgresql:///?service=team").parameters["service"] == "team"
    assert "PGSERVICE" not in os.environ
