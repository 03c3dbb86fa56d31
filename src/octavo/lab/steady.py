"""The WAL regime `steady`: a server long after a checkpoint, or in the middle of checkpoint cycles as in production.

After a checkpoint the first change of each page writes a full-page image, so WAL per transaction decreases as long as
pages are changed for the first time: three successive windows of nine seconds had 5,112, 1,060 and 417 bytes. The
result of a trial in that phase depends on its length. `steady` comes after it: images have dropped to a low level and
no longer decrease, or, if the next checkpoint comes before that, any moment of a checkpoint cycle.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from octavo.errors import OctavoError
from octavo.postgres.cluster import Server

# A window is one warm-up of the workload. The images are flat if so many windows in a row differ by no more than this.
# With more and smaller pages the decrease is slower, and its beginning is also flat, so most of the decrease has to be
# over, too.
_WINDOWS = 4
_FLAT = 0.1
_LEFT = 0.1
# With less than one image in a thousand records, images no longer matter, however they scatter.
_FEW = 0.001
_CYCLES = 2
LONGEST_SECONDS = 1800.0


def reach_steady(
    server: Server, window: Callable[[int], None], phase: float, clock: Callable[[], float] = time.monotonic
) -> dict[str, Any]:
    """Runs windows of the workload until the regime is steady; returns facts on how it was reached.

    `window` runs the workload for a few seconds; it gets the number of the window. If checkpoints come before images
    are few, the trial begins at `phase` of a cycle, a fraction that should differ from round to round, because the
    result of a trial shorter than a cycle depends on it. Raises OctavoError if the server is not steady after half an
    hour: the plan's max_wal_size or checkpoint_timeout is too large for this workload.
    """
    began = clock()
    count = _checkpoints(server)
    begun: list[float] = []  # when checkpoints were first observed
    shares: list[float] = []
    while (now := clock()) - began < LONGEST_SECONDS:
        (before,) = server.query("wal")
        server.disconnect()
        window(len(shares))
        (after,) = server.query("wal")
        shares.append(
            (after["full_page_images"] - before["full_page_images"]) / max(1, after["records"] - before["records"])
        )
        now = clock()
        found = _checkpoints(server)
        begun += [now] * (found - count)
        count = found
        if is_flat(shares):
            return _facts("images are few", now - began, shares, None)
        # The first one may have begun before this function was called.
        if len(begun) > _CYCLES and now - begun[-1] >= phase * (begun[-1] - begun[-2]):
            return _facts("checkpoint cycles", now - began, shares, phase)
        if len(begun) > 2 * _CYCLES:  # shorter and shorter cycles leave no room for the phase
            return _facts("checkpoint cycles", now - began, shares, None)
    raise OctavoError(
        f"full-page images were still decreasing after {LONGEST_SECONDS / 60:.0f} minutes (wal_regime steady); "
        "shorten checkpoint cycles by a smaller max_wal_size or checkpoint_timeout"
    )


def is_flat(shares: Sequence[float]) -> bool:
    """Whether the last windows had hardly any full-page images, or at most a tenth of the most, and about the same
    number.

    >>> is_flat([0.5, 0.2, 0.1, 0.05]), is_flat([0.5, 0.021, 0.02, 0.02, 0.021]), is_flat([0.5, 0.0, 0.0, 0.0, 0.0])
    (False, True, True)
    >>> is_flat([0.283, 0.275, 0.27, 0.266])
    False
    """
    last = shares[-_WINDOWS:]
    if len(last) < _WINDOWS:
        return False
    fallen = max(last) <= _LEFT * max(shares)
    return max(last) <= _FEW or (fallen and max(last) - min(last) <= _FLAT * max(last))


def _facts(why: str, seconds: float, shares: Sequence[float], phase: float | None) -> dict[str, Any]:
    return {
        "why": why,
        "seconds": seconds,
        "images_per_record_at_first": shares[0],
        "images_per_record_at_last": shares[-1],
        "phase_of_cycle": phase,
    }


def _checkpoints(server: Server) -> int:
    return server.query("checkpoints")[0]["checkpoints"]
