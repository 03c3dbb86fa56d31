"""How long dirty memory ages in a round of several cells, on a planted file."""

from pathlib import Path

import pytest

from octavo.host.journal import Journal
from octavo.lab.slices.ageing import ages_slowly


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))


def test_it_is_as_many_times_longer_as_there_are_cells_and_put_back(tmp_path: Path) -> None:
    limit = tmp_path / "dirty_expire_centisecs"
    limit.write_text("3000\n")
    with Journal() as journal, ages_slowly(7, journal, limit) as age:
        assert age == 21_000
        assert limit.read_text() == "21000"
    assert limit.read_text() == "3000"


def test_where_it_cannot_be_changed_it_is_left(tmp_path: Path) -> None:
    with Journal() as journal, ages_slowly(7, journal, tmp_path / "none") as age:
        assert age is None
