"""A plan's needs on this host, as shown by `--dry-run`, also for the hosts of a fleet. It creates nothing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from octavo import workloads
from octavo.lab.estimate import estimate
from octavo.lab.runnable import cannot_run, class_here, left_out, missing_program, other_class
from octavo.plan.cells import make_cells
from octavo.plan.model import Plan
from octavo.postgres.datasets.disk_space import free_bytes
from octavo.text import one_line

# More seconds, bytes or trials are no estimate.
_MOST = 2**63


@dataclass(frozen=True, slots=True)
class HostEstimate:
    """`skipped`: by cell, why it cannot run here. `builds` and `loads` are still to be made, `disk_bytes` still to be
    written. The other fields are as in RunEstimate."""

    skipped: Mapping[str, str]
    builds: tuple[str, ...]
    loads: int
    disk_bytes: int
    free_bytes: int
    prepare_seconds: float
    trials: int
    again: int
    uncounted: bool
    trial_seconds: float
    repeat_seconds: float

    @property
    def seconds(self) -> float:
        """The seconds of the whole run."""
        return self.prepare_seconds + self.trial_seconds

    def as_dict(self) -> dict[str, Any]:
        """The estimate for JSON."""
        return asdict(self)


def host_estimate(plan: Plan, of_class: str | None = None) -> HostEstimate:
    """The estimate of the plan on this host in its present state. `of_class`: its class if the hosts file gives one.
    Raises UsageError for a contradictory design."""
    cells, workload = make_cells(plan), workloads.find(plan.workload)
    mine = of_class or class_here()
    skipped = left_out(
        cells, lambda cell: other_class(cell, mine) or missing_program(workload, cell) or cannot_run(cell)
    )
    needs = estimate(plan, [cell for cell in cells if cell.id not in skipped], workload)
    return HostEstimate(
        skipped, tuple(map(str, needs.builds)), needs.loads, needs.disk_bytes, free_bytes(), needs.prepare_seconds,
        needs.trials, needs.again, needs.uncounted, needs.trial_seconds, needs.repeat_seconds,
    )  # fmt: skip


def host_estimate_of(document: Mapping[str, Any]) -> HostEstimate:
    """Parses another host's estimate. Raises ValueError, KeyError, TypeError or AttributeError if it is not one."""
    return HostEstimate(
        skipped={str(cell): one_line(why) for cell, why in document["skipped"].items()},
        builds=tuple(one_line(build) for build in document["builds"]),
        loads=int(_number(document["loads"])),
        disk_bytes=int(_number(document["disk_bytes"])),
        free_bytes=int(_number(document["free_bytes"])),
        prepare_seconds=_number(document["prepare_seconds"]),
        trials=int(_number(document["trials"])),
        again=int(_number(document["again"])),
        uncounted=bool(document["uncounted"]),
        trial_seconds=_number(document["trial_seconds"]),
        repeat_seconds=_number(document["repeat_seconds"]),
    )


def _number(value: Any) -> float:
    if not 0 <= value < _MOST:  # nor is NaN, which JSON may have in Python
        raise ValueError("not a number of an estimate")
    return float(value)
