"""What is written to the store and read back: frozen data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from octavo.observation import Observation
from octavo.series import Series

RunStatus = Literal["running", "finished", "interrupted", "failed"]
TrialStatus = Literal["ok", "invalid", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run. Times are seconds since the epoch."""

    id: str
    name: str
    status: RunStatus
    token: str
    seed: int
    started: float
    ended: float | None
    plan: Mapping[str, Any]
    plan_text: str
    repeat: str
    metrics: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A trial that has ended, with everything that could explain its numbers.

    `identity` is made once where the trial was measured, and the same when it is sent again.
    A round whose cells do not all fit the disk runs in parts, each with its baseline; ratios are taken within a part.
    """

    cell: str
    round: int
    attempt: int
    position: int
    load: int
    status: TrialStatus
    reason: str | None
    started: float
    ended: float
    seed: int
    observations: tuple[Observation, ...] = ()
    settings: Mapping[str, str] | None = None
    build: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] | None = None
    part: int = 1
    series: tuple[Series, ...] = ()
    id: int = 0
    identity: str | None = None


def for_rounds(record: TrialRecord) -> TrialRecord:
    """The trial without what only the store needs, as `Store.trials` returns it: in a large run it fills the memory."""
    return replace(record, settings=None, build=None, series=())
