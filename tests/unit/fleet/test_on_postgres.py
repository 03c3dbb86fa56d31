"""A host of a fleet that prepares for a run."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.unit.plans import small_plan

from octavo.fleet import on_postgres
from octavo.plan.cells import Cell, make_cells

CELLS = make_cells(small_plan())
LACKING = next(cell.id for cell in CELLS if not cell.baseline and not cell.control)


class ShortOfPages:
    """A bench whose host has too few huge pages for a cell, as it turns out when they are allocated."""

    builds = ()
    room = 0

    def __init__(self, *_: object) -> None:
        self._short: set[str] = set()

    def cannot_run(self, cell: Cell) -> str | None:
        return "it needs 7 huge pages" if cell.id in self._short else None

    def prepare_builds(self, cells: Sequence[Cell]) -> None:
        pass

    def prepare_host(self, cells: Sequence[Cell]) -> None:
        self._short = {LACKING}

    def loads_there(self, _: Sequence[Cell]) -> dict[str, str]:
        return {}

    def close(self) -> None:
        pass


def test_a_cell_whose_huge_pages_the_host_lacks_is_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trials failed on this host in every round."""
    monkeypatch.setattr(on_postgres, "PostgresBench", ShortOfPages)
    monkeypatch.setattr(on_postgres, "octavo_home", lambda: tmp_path)
    monkeypatch.setattr(on_postgres, "check_host", Mock(return_value=[]))
    monkeypatch.setattr(on_postgres, "environment_of", Mock(return_value={}))
    order: Any = SimpleNamespace(run="run", cells=tuple(CELLS), host_class=None, room=5)
    nothing: Any = None
    ready = on_postgres.on_postgres(order, small_plan(), nothing, lambda _: None)
    assert ready.cannot == {LACKING: "it needs 7 huge pages"}
    assert ready.room == 5
