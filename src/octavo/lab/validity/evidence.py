"""The input of the rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from octavo.lab.validity.surroundings import Surroundings
from octavo.plan.thresholds import Thresholds
from octavo.workloads.base import Levels, WorkloadResult


@dataclass(frozen=True, slots=True)
class Evidence:
    """A measured run, its observed numbers by metric, the state of its server, and other activity on the host.

    `started_after` is None if the server could not be queried again, `surroundings` if the host was not observed;
    `settings` are those of the running server, `violations` the violated conditions in the data, `threshold` the plan's
    smallest difference of interest, a fraction. Of the trial's facts the rules read `database_bytes`,
    `memory_limit_bytes`, `memory_limit_shared_bytes`, `device_limit_asked`, `device_limit_achieved`, and of a workload
    that restarts the server `restarts`, `cold_requested_bytes` and `cold_device_read_bytes`.
    """

    result: WorkloadResult
    numbers: Mapping[str, float]
    server_alive: bool
    started_before: float
    started_after: float | None
    server_log: str
    thresholds: Thresholds
    levels: Levels = field(default_factory=dict[str, str])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    surroundings: Surroundings | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    violations: tuple[str, ...] = ()
    threshold: float = 0.0

    @property
    def read_bytes(self) -> float | None:
        """Bytes that our processes read from storage; if unknown, those that all processes read at the device."""
        if self.surroundings is not None and self.surroundings.own_read_bytes is not None:
            return self.surroundings.own_read_bytes
        return self.numbers.get("device_read_bytes")

    @property
    def requested_bytes(self) -> float:
        """Bytes of blocks that the server requested from the kernel; 0 if unknown. The instrument's figure is missing
        when the workload restarted the server, which then counted them itself."""
        counted: float = self.facts.get("cold_requested_bytes", 0.0)
        return self.numbers.get("block_read_bytes", counted)
