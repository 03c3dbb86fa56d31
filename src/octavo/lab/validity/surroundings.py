"""Activity on the host during a trial: numbers, and the names of the processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Observations of the host during a trial. A number is None if it could not be observed; `blind` has the reason by
    rule.

    Ours are Octavo, the server and the client, with all their children. `foreign_cpu_share` is of the
    machine; it may be a little below zero, because the kernel counts the machine's time in ticks and
    that of processes exactly.
    """

    seconds: float
    clock_step_seconds: float
    foreign_cpu_share: float | None = None
    busiest: str | None = None
    own_read_bytes: int | None = None
    foreign_read_bytes: int | None = None
    foreign_written_bytes: int | None = None
    busiest_with_storage: str | None = None
    cached_bytes: int | None = None
    blind: Mapping[str, str] = field(default_factory=dict[str, str])
