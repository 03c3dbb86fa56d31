"""A trial's copy of its data: what a full disk ends, the run or the trial."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from octavo.errors import HostError, OctavoError
from octavo.host.journal import Journal
from octavo.lab import reset


@pytest.fixture(autouse=True)
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(source: Any, target: Path, journal: Journal) -> None:
        del source, journal
        target.mkdir()

    def nothing(_: Path) -> dict[str, Any]:
        return {}

    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(reset.graft, "copy", copy)
    monkeypatch.setattr(reset, "drop_caches", nothing)


def trial(parent: Path | None, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial whose query fails when so many bytes are free."""

    def disk_usage(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=free)

    source: Any = None
    with Journal() as journal, reset.pristine_copy(source, journal, parent):
        monkeypatch.setattr(reset.shutil, "disk_usage", disk_usage)
        raise psycopg.OperationalError("could not extend file")


def test_a_full_disk_ends_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="could not extend file"):
        trial(None, 4096, monkeypatch)
    assert not list((tmp_path / "home/scratch").iterdir())


def test_a_full_volume_of_its_own_fails_the_trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(OctavoError, match="the trial's volume is full") as caught:
        trial(tmp_path / "home/volumes/data", 4096, monkeypatch)
    assert not isinstance(caught.value, HostError)


@pytest.mark.parametrize("own", [False, True])
def test_an_error_with_space_left_is_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: bool) -> None:
    with pytest.raises(psycopg.OperationalError):
        trial(tmp_path / "home/volumes/data" if own else None, 1 << 40, monkeypatch)
