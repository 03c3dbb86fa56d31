"""A run in a team's store with content that Octavo does not write is reported, and does not block the other runs."""

# pyright: reportPrivateUsage=false

import json
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
import typer
from tests.planted_runs import plant
from tests.unit.plans import small_plan

from octavo import series
from octavo.cli.choices import ReportFormat
from octavo.cli.compare import compare
from octavo.cli.report import report
from octavo.cli.runs import runs
from octavo.errors import OctavoError
from octavo.lab.forecast import find_history
from octavo.report.site import write_site
from octavo.store import address, listing, schema
from octavo.store.address import ServerAddress
from octavo.store.store import Store

TEAMS = ServerAddress("postgresql://anna@stores/octavo", {})
DEEP = "[" * 100_000 + "]" * 100_000
_OPEN = Store.open
# A column of the run, or of its trials, and the text that somebody has written into it.
BAD = [
    ("run", "plan", "[]"),
    ("run", "plan", DEEP),
    ("run", "metrics", "{}"),
    ("run", "metrics", '{"tps": 1}'),
    ("run", "environment", "null"),
    ("run", "environment", '{"not_pinned": [1], "host": 7, "builds": 7}'),
    ("run", "started", 1e308),
    ("trial", "facts", '{"caches_emptied_by": [], "plan_shapes": 7, "seconds": "x"}'),
    ("cell", "levels", '{"data_block": {}}'),
]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A file that claims to be a team's store, with two runs."""
    file = tmp_path / "octavo.sqlite"

    def opened(_: object) -> Store:
        found = _OPEN(file)
        found.address = TEAMS
        return found

    def listed(_: object) -> list[dict[str, Any]]:
        return listing._in_file(file)

    def teams() -> ServerAddress:
        return TEAMS

    monkeypatch.setattr(Store, "open_to_read", opened)
    monkeypatch.setattr(listing, "_on_server", listed)
    monkeypatch.setattr(address, "store_address", teams)
    monkeypatch.setattr("octavo.lab.forecast.platform.node", lambda: "here")
    with closing(opened(None)) as found:
        for number in (1, 2):
            plant(found, small_plan(), metrics=3, number=number, status="finished")
        yield found


def write(store: Store, table: str, column: str, text: object) -> str:
    """Writes the text into the newer run; returns the run."""
    bad, _ = (row["id"] for row in listing.list_runs(TEAMS))
    changed = schema.metadata.tables[table]
    of = changed.c.id if table == "run" else changed.c.run
    # As plain text, and not as JSON.
    value = sqlalchemy.literal(text).op("||")("") if isinstance(text, str) else sqlalchemy.literal(text)
    with store._engine.begin() as connection:
        connection.execute(sqlalchemy.update(changed).where(of == bad).values({column: value}))
    return bad


@pytest.mark.parametrize(("table", "column", "text"), BAD)
def test_it_is_one_line_and_the_others_are_shown(
    store: Store, table: str, column: str, text: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = write(store, table, column, text)
    ids = [row["id"] for row in listing.list_runs(TEAMS)]
    good = next(run for run in ids if run != bad)
    runs()
    listed = capsys.readouterr().out
    assert bad in listed
    assert good in listed
    find_history(small_plan(), TEAMS)
    for number, format in enumerate(ReportFormat):
        _allow_one_line(lambda format=format: report(bad, format=format))
        _allow_one_line(lambda number=number: report(bad, html=tmp_path / f"{number}.html"))
    _allow_one_line(lambda: compare([good, bad], html=tmp_path / "both.html"))
    index = write_site(store, ids, tmp_path / "site")
    assert (index.parent / "runs" / f"{good}.html").is_file()
    assert bad in index.read_text()


def _allow_one_line(show: Any) -> None:
    try:
        show()
    except OctavoError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 600
    except typer.Exit:  # of compare: nothing is decided
        pass


def test_the_line_says_which_run_and_why(store: Store) -> None:
    bad = write(store, "run", "metrics", "{}")
    with pytest.raises(OctavoError, match=f"{bad} cannot be read: its content in the store is not what Octavo writes"):
        report(bad)


def test_in_a_file_of_our_own_it_is_a_defect(store: Store, tmp_path: Path) -> None:
    """It must not be hidden by a message."""
    store.address = Path("octavo.sqlite")
    bad = write(store, "run", "metrics", "{}")
    with pytest.raises(IndexError):
        write_site(store, [bad], tmp_path / "site")


def test_a_series_of_a_few_bytes_does_not_fill_the_memory() -> None:
    packed = zlib.compress(bytes(series._MOST_BYTES + 8))
    assert len(packed) < series._MOST_BYTES / 500
    for damaged in (packed, packed[:-9], b"", b"x"):
        with pytest.raises((ValueError, zlib.error)):
            series.unpack_values(damaged)
    assert series.unpack_values(series.pack_values((1.5, 2.0))) == (1.5, 2.0)


def test_its_plan_is_json_of_any_kind(store: Store) -> None:
    write(store, "run", "plan", json.dumps([1]))
    assert find_history(small_plan(), TEAMS) is None
