"""The I/O credits of the volumes that are being enforced, by device number."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

# The lab writes it, and the sampler's thread reads it. A trial has one volume; trials in slices have one each.
_CREDITS: dict[str, Callable[[], float]] = {}


@contextmanager
def published(number: str, credits: Callable[[], float]) -> Generator[None, None, None]:
    """Makes `credits_under` return this volume's credits within the context. `number` is its device number, such as
    7:0."""
    _CREDITS[number] = credits
    try:
        yield
    finally:
        del _CREDITS[number]


def credits_under(directory: Path) -> float | None:
    """The remaining credits of the volume under a directory; None for one without credits."""
    number = directory.stat().st_dev
    left = _CREDITS.get(f"{os.major(number)}:{os.minor(number)}")
    return None if left is None else left()
