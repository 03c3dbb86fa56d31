"""Break-even residency: how long a page may stay unused in memory before reading it again is cheaper.

J. Gray and F. Putzolu, "The 5 Minute Rule for Trading Memory for Disc Accesses", SIGMOD 1987; R. Appuswamy, G. Graefe,
R. Borovica-Gajic, A. Ailamaki, "The Five-Minute Rule Thirty Years Later", CACM 62 (2019): seconds = (pages a MB of
memory / accesses a second of the device) × (price of the device / price of a MB of memory). Without prices it follows
from the device's limits and the available memory: the time in which the device can fill the memory once.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from octavo.errors import UsageError
from octavo.predict.device import Device


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of the device and of a GB of memory, in the same currency and for the same period. Raises UsageError
    for a price that is not above 0: without a price of memory no time would break even, and a device without one always
    would."""

    device: float | None = None
    memory_gb: float | None = None

    def __post_init__(self) -> None:
        for option, price in (("--device-price", self.device), ("--memory-price", self.memory_gb)):
            if price is not None and not 0 < price < math.inf:
                raise UsageError(f"{option} {price:g}: it must be a finite number above 0")


def break_even(blocks: Iterable[int], device: Device, memory: int | None, prices: Prices) -> list[dict[str, Any]]:
    """The break-even time in seconds by page size, with its inputs; empty where the device has no known limits.

    A device of 3,000 requests a second for 20, memory at 5 a GB:

    >>> found = break_even([8192], Device("x", requests=3000.0), None, Prices(20.0, 5.0))
    >>> round(found[0]["seconds"])
    175
    """
    found: list[dict[str, Any]] = []
    for block in blocks:
        each = device.seconds(1, block)
        if not each:
            continue
        if prices.device is not None and prices.memory_gb is not None:
            seconds = (1024**3 / block) * each * prices.device / prices.memory_gb
            found.append({"data_block_bytes": block, "seconds": seconds, "from": "prices"})
        elif memory is not None:
            found.append({"data_block_bytes": block, "seconds": memory / block * each, "from": "limits"})
    return found
