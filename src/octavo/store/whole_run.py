"""A run that was measured elsewhere, written at once: whole, or not at all."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from octavo.plan.cells import Cell
from octavo.store import schema
from octavo.store.records import RunRecord, TrialRecord
from octavo.store.store import Store


def add_finished_run(path: Path, record: RunRecord, cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> None:
    """Opens the store and commits the run with all that it has in one transaction. Trials get ids of the store.

    Trials of imported runs have neither settings nor a build of their own. Raises OctavoError.
    """
    with closing(_Store.open(path)) as store:
        store.add(record, cells, trials)


class _Store(Store):
    def add(self, record: RunRecord, cells: Sequence[Cell], trials: Sequence[TrialRecord]) -> None:
        with self._writing("the run") as connection:
            connection.execute(insert(schema.run).values(**_columns(record, schema.run)))
            connection.execute(
                insert(schema.cell),
                [
                    {**_columns(cell, schema.cell), "run": record.id, "position": position}
                    for position, cell in enumerate(cells)
                ],
            )
            seen: list[dict[str, Any]] = []
            for trial in trials:
                values = {**_columns(trial, schema.trial), "run": record.id, "facts": dict(trial.facts or {})}
                del values["id"]
                inserted = connection.execute(insert(schema.trial).values(**values)).inserted_primary_key
                assert inserted is not None
                seen += [
                    {"trial": inserted[0], "number": number, **_columns(one, schema.observation)}
                    for number, one in enumerate(trial.observations)
                ]
            if seen:
                connection.execute(insert(schema.observation), seen)


def _columns(record: Any, table: Any) -> dict[str, Any]:
    """The record's fields that the table has columns for."""
    names = (column.name for column in table.c if hasattr(record, column.name))
    return {name: _plain(getattr(record, name)) for name in names}


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else value
