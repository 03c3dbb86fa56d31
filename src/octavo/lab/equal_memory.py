"""Equal memory: shared_buffers such that all of shared memory has the size that the level gives.

Equal shared_buffers is not equal memory: every buffer has a descriptor, a hash entry and a lock, so 1 GB of buffers
took 1,275 MB of shared memory at 1 kB blocks and 1,067 MB at 32 kB.
"""

from collections.abc import Callable

from octavo.errors import OctavoError

_KB = 1024
_MB = 1024**2
_STEPS = 20


def buffers_within(memory: int, data_block: int, shared_memory: Callable[[int], int]) -> int:
    """The most bytes of shared_buffers, whole megabytes, with which shared memory takes at most `memory` bytes.

    `shared_memory` answers for bytes of shared_buffers how many bytes the server would map (the server's own
    shared_memory_size, which it rounds up to MB). Raises OctavoError when not even 16 buffers fit.
    """
    low, high = 16 * data_block // _MB, memory // _MB
    if shared_memory(max(low * _MB, 16 * data_block)) > memory:
        raise OctavoError(
            f"{memory // _MB} MB of shared memory have no room for 16 buffers of {data_block // _KB} kB beside the rest"
        )
    for _ in range(_STEPS):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        if shared_memory(middle * _MB) <= memory:
            low = middle
        else:
            high = middle
    return max(low * _MB, 16 * data_block)
