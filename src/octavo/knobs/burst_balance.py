"""The I/O credits of the volumes enforced now, by device number."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

# Written by the lab, read by the sampler's thread; a trial has one volume, trials in slices one each.
_CREDITS: dict[str, Callable[[], float]] = {}


@contextmanager
def published(number: str, credits: Callable[[], float]) -> Generator[None, None, None]:
    """Within the context `credits_under` returns this volume's credits; `number` is its device's, such as 7:0."""
    _CREDITS[number] = credits
    try:
        yield
    finally:
        del _CREDITS[number]


def credits_under(directory: Path) -> float | None:
    """The credits that are left to the volume under a directory; None for one without credits."""
    number = directory.stat().st_dev
    left = _CREDITS.get(f"{os.major(number)}:{os.minor(number)}")
    return None if left is None else left()
