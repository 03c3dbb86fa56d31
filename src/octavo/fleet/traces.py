"""`octavo trace surface --scheduler`: simulates a trace in shares, on the workers of a Dask cluster.

Every worker reads the whole trace, at the same path, and simulates its own page sizes, or its part of their pages.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from octavo import _core
from octavo.errors import HostError, UsageError
from octavo.fleet.dask_hosts import DaskHosts
from octavo.fleet.workshop import BENCH
from octavo.trace.core_types import BufferPoint, Curve, Totals
from octavo.trace.files import ignore_progress, reading
from octavo.trace.parts import MOST_PARTS, Share, assembled, shares
from octavo.trace.surface import SurfaceRequest, threads_of

Places = Sequence[tuple[int, int, int, int, int]]


class FleetSimulator:
    """Simulates on the present workers. Raises HostError when there is none, UsageError for too many parts."""

    def __init__(self, hosts: DaskHosts, parts: int | None = None) -> None:
        """`parts`: how many parts the pages of each size are divided into; by default enough to keep all workers
        busy."""
        hosts.look()
        self._hosts, self._workers, self._parts = hosts, sorted(hosts.present()), parts
        if not self._workers:
            raise HostError("there is no worker; octavo fleet run starts those of a hosts file")
        if parts is not None and parts > MOST_PARTS:
            raise UsageError(f"--parts {parts}: at most {MOST_PARTS}, because each reads the whole trace")

    def curves(
        self, request: SurfaceRequest, own: int, sizes: Sequence[int], capacities: Sequence[int]
    ) -> tuple[Totals, list[Curve], int]:
        """Distributes the shares over the workers. Returns the totals, the curves and the largest number of parts of
        any size. Raises HostError when a worker fails, or has a different trace."""
        planned = shares(own, sizes, len(self._workers), self._parts)
        answers = self._of_parts(curves_of_share, [(request, own, share, tuple(capacities)) for share in planned])
        totals: Totals = answers[0][0]
        if any(one["accesses"] != totals["accesses"] for one, _ in answers):
            raise HostError(f"{request.path} differs between workers; copy the trace to them again")
        curves = assembled(sizes, [curves for _, curves in answers])
        return totals, curves, max(share.part[1] for share in planned)

    def buffers(self, request: SurfaceRequest, own: int, places: Places) -> list[BufferPoint]:
        """Simulates the points, divided among the workers. Returns them in their order."""
        count = min(len(self._workers), len(places))
        shares = [list(places[first::count]) for first in range(count)]
        answers = self._of_parts(points_of_share, [(request, own, share) for share in shares])
        return [answers[place % count][place // count] for place in range(len(places))]

    def _of_parts(self, work: Callable[..., Any], orders: Sequence[tuple[Any, ...]]) -> list[Any]:
        names = [self._workers[place % len(self._workers)] for place in range(len(orders))]
        return self._hosts.gather([(name, work, *order) for name, order in zip(names, orders, strict=True)])


def curves_of_share(
    request: SurfaceRequest, own: int, share: Share, capacities: Sequence[int]
) -> tuple[Totals, list[Curve]]:
    """A task: returns the curves of this share. Raises UsageError and HostError like `trace.surface`."""

    def work() -> tuple[Totals, list[Curve]]:
        with reading(request.path) as opened:
            return _core.trace_curves(
                opened, own, list(share.sizes), list(capacities),
                rate=request.rate, seed=request.seed, threads=threads_of(request), observe=ignore_progress,
                part=share.part, concentrated=list(share.concentrated),
            )  # fmt: skip

    return BENCH.do(work)


def points_of_share(request: SurfaceRequest, own: int, places: Places) -> list[BufferPoint]:
    """A task: simulates PostgreSQL's buffer manager at these points. Raises UsageError and HostError like
    `trace.surface`."""

    def work() -> list[BufferPoint]:
        with reading(request.path) as opened:
            return _core.trace_buffers(
                opened, own, list(places),
                rate=request.rate, seed=request.seed, threads=threads_of(request), observe=ignore_progress,
            )[1]  # fmt: skip

    return BENCH.do(work)


def at_absolute_path(request: SurfaceRequest) -> SurfaceRequest:
    """The request with an absolute path: the workers have another current directory."""
    return replace(request, path=request.path.absolute())
