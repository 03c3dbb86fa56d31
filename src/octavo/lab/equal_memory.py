"""Equal memory: shared_buffers such that all of shared memory has the size of the level.

Equal shared_buffers is not equal memory: every buffer has a descriptor, a hash entry and a lock, so 1 GB of buffers
needed 1,275 MB of shared memory at 1 kB blocks and 1,067 MB at 32 kB.
"""

from collections.abc import Callable

from octavo.errors import OctavoError

_KB = 1024
_MB = 1024**2
_STEPS = 20


def buffers_within(memory: int, data_block: int, shared_memory: Callable[[int], int]) -> int:
    """The largest shared_buffers in bytes, in whole megabytes, with which shared memory has at most `memory` bytes.

    `shared_memory` returns the bytes that the server would map for so many bytes of shared_buffers (the server's own
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
