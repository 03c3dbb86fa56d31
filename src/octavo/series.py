"""Series: a figure over the time of a trial, packed as in the store.

It is packed on the host that measured it: a coordinator of many hosts only passes the bytes on. The times are whole
milliseconds, each as the step from the one before, which compress to nearly nothing at a steady period; the values are
IEEE doubles, unrounded. Both are little-endian and deflated (zlib).
"""

import sys
import zlib
from array import array
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal, Self

# Ten times a second for a month.
_MOST_BYTES = 256 * 1024**2
# zlib's window (2 to that power) and memory for so few bytes; the format is the same.
_SMALL_BYTES, _SMALL_WINDOW, _SMALL_MEMORY = 512, 12, 4


@dataclass(frozen=True, slots=True)
class Series:
    """Values of a metric at moments of a trial, in seconds since its instruments were started.

    A value of a rate or a ratio is that of the interval that ends at its moment.
    """

    metric: str
    unit: str
    packed_seconds: bytes
    packed_values: bytes
    item: str | None = None

    @classmethod
    def of(
        cls, metric: str, unit: str, seconds: tuple[float, ...], values: tuple[float, ...], item: str | None = None
    ) -> Self:
        """A series of these values. Raises ValueError and OverflowError for moments that are no times.

        >>> Series.of("tps", "1/s", (0.9996, 2.0), (0.1, 2.0)).seconds
        (1.0, 2.0)
        """
        return cls(metric, unit, pack_seconds(seconds), pack_values(values), item)

    def __reduce__(self) -> tuple[type["Series"], tuple[str, str, bytes, bytes, str | None]]:
        """As that of an observation: a trial has dozens, which travel to the coordinator."""
        return Series, (self.metric, self.unit, self.packed_seconds, self.packed_values, self.item)

    @property
    def seconds(self) -> tuple[float, ...]:
        """The moments, to the millisecond."""
        return unpack_seconds(self.packed_seconds)

    @property
    def values(self) -> tuple[float, ...]:
        """The values, exactly."""
        return unpack_values(self.packed_values)


@lru_cache(64)
def pack_seconds(seconds: tuple[float, ...]) -> bytes:
    """The moments for the store, to the millisecond.

    >>> unpack_seconds(pack_seconds((0.9996, 2.0, 3.0014)))
    (1.0, 2.0, 3.001)
    """
    milliseconds = [round(second * 1000) for second in seconds]
    steps = array("q", [now - then for then, now in zip([0, *milliseconds], milliseconds, strict=False)])
    return _deflate(steps)


def unpack_seconds(packed: bytes) -> tuple[float, ...]:
    """The moments that were packed."""
    return tuple(moment / 1000 for moment in accumulate(_inflate("q", packed)))


def pack_values(values: tuple[float, ...]) -> bytes:
    """The values for the store, exactly.

    >>> unpack_values(pack_values((0.1, 2.0)))
    (0.1, 2.0)
    """
    return _deflate(array("d", values))


def unpack_values(packed: bytes) -> tuple[float, ...]:
    """The values that were packed."""
    return tuple(_inflate("d", packed))


def _deflate(numbers: "array[int] | array[float]") -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    content = numbers.tobytes()
    if len(content) > _SMALL_BYTES:
        return zlib.compress(content)
    # What zlib allocates and clears for a window of 32 kB takes many times as long as these few bytes.
    small = zlib.compressobj(wbits=_SMALL_WINDOW, memLevel=_SMALL_MEMORY)
    return small.compress(content) + small.flush()


def _inflate(kind: Literal["d", "q"], packed: bytes) -> "array[int] | array[float]":
    numbers: array[int] | array[float] = array(kind)
    # A store of others may have a few bytes that become gigabytes.
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed, _MOST_BYTES)
    if not unpacker.eof:
        raise ValueError("a series is damaged, or longer than any trial")
    numbers.frombytes(content)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
