"""What the laboratory asks of a workload."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from octavo.factor import Factor
from octavo.observation import Metric, Observation
from octavo.postgres.cluster import Server

Levels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """What one measured run gave. `problems` are the client's own complaints; times in seconds."""

    observations: tuple[Observation, ...]
    seconds_asked: float
    seconds: float
    transactions: int
    client_cpu_seconds: float
    problems: tuple[str, ...]
    output: str


class Workload(Protocol):
    """A workload: prepare once per load, warm and run once per trial."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors that only this workload has."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What its observations mean; the first one is what the verdict speaks of."""
        ...

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The levels that the dataset depends on; trials that agree in them share their loads."""
        ...

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Loads the data; what is random in it is the load's own, and the same in every cell that has this load.

        Raises OctavoError when it fails.
        """
        ...

    def database_bytes(self, levels: Levels) -> int:
        """About how large the loaded database will be, for the estimate before it exists."""
        ...

    def seconds_asked(self, levels: Levels) -> float:
        """How long a measured run is asked to last, for the estimate."""
        ...

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Brings a server with filled caches to speed; what it does is not measured."""
        ...

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """The measured run. Raises OctavoError when there is nothing to measure."""
        ...
