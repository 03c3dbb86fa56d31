"""JSON of a file that a user names: reports to compare, and facts of another host."""

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from octavo.errors import UsageError

_MOST_BYTES = 64 * 1024**2


def read_json(path: Path) -> Any:
    """What the file holds. Raises UsageError when it cannot be read, is too large or is no JSON (NaN is none)."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
        raise UsageError(f"{reason}; name a file of octavo doctor --format json") from None
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{path} has more than {_MOST_BYTES // 1024**2} MB; it is no report of octavo doctor")
    try:
        return json.loads(content, parse_constant=_refuse, parse_float=_finite, parse_int=_of_64_bits)
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is no JSON; name a file that octavo doctor --format json has written") from None


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is too large")
    return number


def _of_64_bits(text: str) -> int:
    """No fact is larger, and a float holds all of them."""
    if abs(number := int(text)) >= 2**64:
        raise ValueError(f"{text} is too large")
    return number


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
