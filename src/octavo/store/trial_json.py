"""A trial as JSON, complete and exact: for the file that keeps it, and for sending it from the host that measured
it."""

import dataclasses
import json
from operator import attrgetter
from sys import intern
from typing import Any, cast

from octavo.errors import OctavoError
from octavo.observation import Observation
from octavo.series import Series
from octavo.store.records import TrialRecord

_VERSION = 1
_FIELDS = frozenset(field.name for field in dataclasses.fields(TrialRecord)) - {"id"}
# dataclasses.astuple copies deeply: 2 ms a trial.
_OF_OBSERVATION = attrgetter(*(field.name for field in dataclasses.fields(Observation)))
_OF_SERIES = attrgetter("metric", "unit", "seconds", "values", "item")
_TEXT = ("cell", "status")
_WHOLE = ("round", "attempt", "position", "load", "seed", "part")
_STATUSES = ("ok", "invalid", "failed", "skipped")


def encode(run: str, record: TrialRecord) -> bytes:
    """The trial of a run. Python's JSON restores every double exactly, and also infinity and NaN."""
    values = {name: getattr(record, name) for name in _FIELDS}
    for name in ("settings", "build", "facts"):
        values[name] = None if values[name] is None else dict(values[name])
    values["observations"] = [_OF_OBSERVATION(one) for one in record.observations]
    values["series"] = [_OF_SERIES(one) for one in record.series]
    return json.dumps({"version": _VERSION, "run": run, "trial": values}).encode()


def decode(content: bytes) -> tuple[str, TrialRecord]:
    """The run's id and the trial. Raises OctavoError for what `encode` has not written."""
    try:
        document = cast("dict[str, Any]", json.loads(content))
        if document["version"] != _VERSION:
            raise OctavoError(f"it has version {document['version']!r}, this Octavo supports {_VERSION}")
        return str(document["run"]), _trial(document["trial"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise OctavoError(f"it is not a trial of Octavo's ({error!r:.200})") from None


def _trial(values: dict[str, Any]) -> TrialRecord:
    if values.keys() != _FIELDS or values["status"] not in _STATUSES:
        raise ValueError("fields")
    for names, kind in ((_TEXT, str), (_WHOLE, int), (("started", "ended"), float | int)):
        if not all(isinstance(values[name], kind) for name in names):
            raise TypeError(", ".join(names))
    lists: dict[str, Any] = {
        "observations": tuple(Observation(*map(_plain, fields)) for fields in values["observations"]),
        "series": tuple(
            Series.of(metric, unit, tuple(map(float, seconds)), tuple(map(float, numbers)), item)
            for metric, unit, seconds, numbers, item in values["series"]
        ),
    }
    return TrialRecord(**{**values, **lists})


def _plain(value: Any) -> Any:
    """A field of an observation. Names and units are those of every other trial: once in memory, and once in what is
    sent."""
    if isinstance(value, str):
        return intern(value)
    if isinstance(value, list | dict):
        raise TypeError("observation")
    return value
