"""What the rules look at."""

from dataclasses import dataclass

from octavo.workloads.base import WorkloadResult


@dataclass(frozen=True, slots=True)
class Evidence:
    """A measured run and how its server fared. `started_after` is None when the server could not be asked again."""

    result: WorkloadResult
    server_alive: bool
    started_before: float
    started_after: float | None
    server_log: str
