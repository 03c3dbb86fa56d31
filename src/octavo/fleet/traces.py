"""`octavo trace surface --scheduler`: a trace that is simulated in parts, on the workers of a Dask.

Every worker reads the whole trace, at the same path, and follows its part of the pages.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from octavo import _core
from octavo.errors import HostError, UsageError
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.workshop import BENCH
from octavo.trace.core_types import BufferPoint, Curve, Totals
from octavo.trace.files import nobody, reading
from octavo.trace.parts import merged
from octavo.trace.surface import SurfaceRequest, threads_of

Places = Sequence[tuple[int, int, int, int, int]]
MOST_PARTS = 1024


class FleetSimulator:
    """Simulates on the workers that are there. Raises HostError when there is none, UsageError for too many parts."""

    def __init__(self, hosts: DaskHosts, parts: int | None = None) -> None:
        """`parts`: as many as workers if left out."""
        hosts.look()
        self._hosts, self._workers = hosts, sorted(hosts.present())
        if not self._workers:
            raise HostError("there is no worker; octavo fleet run starts those of a hosts file")
        self._parts = parts or len(self._workers)
        if self._parts > MOST_PARTS:
            raise UsageError(f"--parts {self._parts}: at most {MOST_PARTS}, because each reads the whole trace")

    def curves(
        self, request: SurfaceRequest, own: int, sizes: Sequence[int], capacities: Sequence[int]
    ) -> tuple[Totals, list[Curve], int]:
        """The parts in turn on the workers. Raises HostError when one cannot do it, or has another trace there."""
        answers = self._of_parts(
            curves_of_part, [(request, own, tuple(sizes), tuple(capacities), (part, self._parts)) for part in
                             range(self._parts)]
        )  # fmt: skip
        totals: Totals = answers[0][0]
        if any(one["accesses"] != totals["accesses"] for one, _ in answers):
            raise HostError(f"{request.path} differs between workers; copy the trace to them again")
        return totals, merged([curves for _, curves in answers]), self._parts

    def buffers(self, request: SurfaceRequest, own: int, places: Places) -> list[BufferPoint]:
        """Each point as on one host, some on every worker; in their order."""
        count = min(len(self._workers), len(places))
        shares = [list(places[first::count]) for first in range(count)]
        answers = self._of_parts(points_of_share, [(request, own, share) for share in shares])
        return [answers[place % count][place // count] for place in range(len(places))]

    def _of_parts(self, work: Callable[..., Any], orders: Sequence[tuple[Any, ...]]) -> list[Any]:
        names = [self._workers[place % len(self._workers)] for place in range(len(orders))]
        return self._hosts.gather([(name, work, *order) for name, order in zip(names, orders, strict=True)])


def curves_of_part(
    request: SurfaceRequest, own: int, sizes: Sequence[int], capacities: Sequence[int], part: tuple[int, int]
) -> tuple[Totals, list[Curve]]:
    """A task: the curves as this part of the pages tells them. Raises UsageError, HostError as `trace.surface`."""

    def work() -> tuple[Totals, list[Curve]]:
        with reading(request.path) as opened:
            return _core.trace_curves(
                opened, own, list(sizes), list(capacities),
                rate=request.rate, seed=request.seed, threads=threads_of(request), observe=nobody, part=part,
            )  # fmt: skip

    return BENCH.do(work)


def points_of_share(request: SurfaceRequest, own: int, places: Places) -> list[BufferPoint]:
    """A task: PostgreSQL's buffer manager at these points. Raises UsageError, HostError as `trace.surface`."""

    def work() -> list[BufferPoint]:
        with reading(request.path) as opened:
            return _core.trace_buffers(
                opened, own, list(places),
                rate=request.rate, seed=request.seed, threads=threads_of(request), observe=nobody,
            )[1]  # fmt: skip

    return BENCH.do(work)


def at_absolute_path(request: SurfaceRequest) -> SurfaceRequest:
    """The request as workers can read it, whose directory is another one."""
    return replace(request, path=request.path.absolute())
