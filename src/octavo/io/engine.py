"""The I/O engine of the core, with its errors as Octavo's."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.errors import HostError, OctavoError, UsageError
from octavo.io.job import Job

if TYPE_CHECKING:
    from octavo._core import IoOutcome

Observe = Callable[[str, float, int], object]


class UnsupportedPolicyError(HostError):
    """The kernel does not offer this way of asking: another policy may still be measured."""


def measure(job: Job, observe: Observe) -> "IoOutcome":
    """Measures. Raises UsageError, HostError, UnavailableError (no io_uring), or OctavoError (a wrong block)."""
    from octavo._core import io_run

    _check_range(job)
    with _translated_errors():
        return io_run(job, observe)


def make(path: Path, size: int, observe: Observe) -> None:
    """Makes a new file whose blocks can be checked. Raises UsageError or HostError; no file is left then."""
    from octavo._core import io_make

    if os.path.lexists(path):  # the engine refuses it too, but an existing file is no fault of the host
        raise UsageError(f"{path} exists; --make only makes new files: name another one, or omit --make")
    with _translated_errors():
        io_make(path, size, observe)


def is_own(path: Path) -> bool:
    """Whether `make` made this file. Raises UsageError or HostError when it cannot be read."""
    from octavo._core import io_is_own

    with _translated_errors():
        return io_is_own(path)


_NUMBERS = ("block", "run", "stride", "most", "hole", "distance", "depth", "threads", "blocks", "seed")
_LARGEST = 2**63 - 1
_LARGEST_OF = {"depth": 32768}  # io_uring's own limit, which the engine's 32 bits hold


def _check_range(job: Job) -> None:
    """Raises UsageError for a number that the engine's integers cannot hold; what it makes of others it says itself."""
    for name in _NUMBERS:
        value, most = getattr(job, name), _LARGEST_OF.get(name, _LARGEST)
        if value is not None and not 0 <= value <= most:
            raise UsageError(f"{name} must be from 0 to {most}, not {value}")


@contextmanager
def _translated_errors() -> Generator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error
    except NotImplementedError as error:
        raise UnsupportedPolicyError(str(error)) from error
    except OSError as error:
        raise HostError(str(error)) from error
    except AssertionError as error:
        raise OctavoError(str(error)) from error
