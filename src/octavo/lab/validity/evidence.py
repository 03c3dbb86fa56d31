"""What the rules look at."""

from collections.abc import Mapping
from dataclasses import dataclass

from octavo.plan.thresholds import Thresholds
from octavo.workloads.base import WorkloadResult


@dataclass(frozen=True, slots=True)
class Evidence:
    """A measured run, its observed numbers by metric, and how its server fared.

    `started_after` is None when the server could not be asked again.
    """

    result: WorkloadResult
    numbers: Mapping[str, float]
    server_alive: bool
    started_before: float
    started_after: float | None
    server_log: str
    thresholds: Thresholds
