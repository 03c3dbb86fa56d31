"""The WAL regime `steady`: a server that is long past a checkpoint, or has checkpoints behind it as in production.

After a checkpoint the first change of each page writes a full-page image, so WAL per transaction falls for as long as
pages are touched for the first time: 5,112, 1,060 and 417 bytes were seen in three successive windows of nine seconds.
A trial in that fall measures its own length. Steady is what comes after it: two whole checkpoint cycles, or full-page
images per WAL record that no longer fall.
"""

import time
from collections.abc import Callable, Sequence

from octavo.errors import OctavoError
from octavo.postgres.cluster import Server

# A window is one warm-up of the workload. This many in a row that differ by no more than this are flat.
_WINDOWS = 4
_FLAT = 0.1
# Below one image in a thousand records the images no longer matter, however they scatter.
_FEW = 0.001
_CYCLES = 2
_LONGEST_SECONDS = 1800.0


def reach_steady(server: Server, window: Callable[[int], None], clock: Callable[[], float] = time.monotonic) -> float:
    """Runs windows of the workload until the regime is steady; returns the seconds that it took.

    `window` runs the workload for a few seconds; it gets the number of the window. Raises OctavoError when the server
    is not steady after half an hour: the plan's max_wal_size or checkpoint_timeout is too large for this workload.
    """
    began = clock()
    first_checkpoints = _checkpoints(server)
    shares: list[float] = []
    while clock() - began < _LONGEST_SECONDS:
        (before,) = server.query("wal")
        server.disconnect()
        window(len(shares))
        (after,) = server.query("wal")
        shares.append(
            (after["full_page_images"] - before["full_page_images"]) / max(1, after["records"] - before["records"])
        )
        # The first of them may have been begun before we came.
        if _checkpoints(server) - first_checkpoints > _CYCLES or is_flat(shares):
            return clock() - began
    raise OctavoError(
        f"full-page images were still falling after {_LONGEST_SECONDS / 60:.0f} minutes (wal_regime steady); a smaller "
        "max_wal_size or checkpoint_timeout gives checkpoint cycles that can be waited for"
    )


def is_flat(shares: Sequence[float]) -> bool:
    """Whether the last windows had the same full-page images per record, or hardly any.

    >>> is_flat([0.5, 0.2, 0.1, 0.05]), is_flat([0.5, 0.21, 0.2, 0.2, 0.21]), is_flat([0.5, 0.0, 0.0, 0.0, 0.0])
    (False, True, True)
    """
    last = shares[-_WINDOWS:]
    if len(last) < _WINDOWS:
        return False
    return max(last) <= _FEW or max(last) - min(last) <= _FLAT * max(last)


def _checkpoints(server: Server) -> int:
    return server.query("checkpoints")[0]["checkpoints"]
