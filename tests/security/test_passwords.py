"""No error repeats a password, however a connection string is mistyped, and whichever command was given it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from octavo.errors import HostError, UsageError
from octavo.hugepages.needed import server_of
from octavo.io.from_query import blocks_of_query
from octavo.iotop.activity import Activity
from octavo.postgres.user_connection import without_secrets
from octavo.watch.connect import connect

_WAYS: dict[str, Callable[[str], object]] = {
    "watch": connect,
    "iotop": Activity.open,
    "io --from-query": lambda dsn: blocks_of_query("SELECT 1", dsn),
    "hugepages": lambda dsn: server_of(None, None, dsn, [], 0),
}
# Each is refused before any name lookup or connection.
_MISTYPED = (
    "postgres//me:hunter2@host/shop",
    "host=x password='hunter2",
    "host=/nowhere password=one hunter2",
    "postgresql://me:hunter2@host:notaport/x=?",
    "postgresql://me:one@hunter2@host/shop",
    "postgresql://me:hunter2",
    "postgresql://me:hunter2/x@host/shop",
    "postgresql://me:12/hunter2@host/shop",
    "host=/nowhere password=hunter2\udcff",
)


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("dsn", _MISTYPED)
def test_a_mistyped_connection_string_is_not_repeated(way: str, dsn: str) -> None:
    with pytest.raises(UsageError) as caught:
        _WAYS[way](dsn)
    assert "hunter2" not in str(caught.value)
    assert "--dsn" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None  # nor in a debugger's output


@pytest.mark.parametrize("way", _WAYS)
def test_a_server_that_is_not_there(way: str, tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"could not connect.*--dsn") as caught:
        _WAYS[way](f"host={tmp_path}/hunter2 user=nobody password=hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_password_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with pytest.raises(HostError) as caught:
        connect(f"host={tmp_path}/hunter2 user=nobody")
    assert "hunter2" not in str(caught.value)


def test_what_looks_like_one_in_a_servers_message() -> None:
    text = 'database "postgres://me:hunter2@host/shop" does not exist; password = hunter2'
    assert "hunter2" not in without_secrets(text)
