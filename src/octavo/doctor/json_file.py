"""JSON from a file that the user names: reports to compare, and facts of another host."""

import errno
import json
import math
from pathlib import Path
from typing import Any, NoReturn

from octavo.errors import UsageError
from octavo.host import careful_open

_MOST_BYTES = 64 * 1024**2


def read_json(path: Path) -> Any:
    """The parsed content. Raises UsageError when the file cannot be read, is too large or is not JSON (NaN is not)."""
    try:
        content = careful_open.read_bytes(path, _MOST_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise UsageError(
                f"{path} has more than {_MOST_BYTES // 1024**2} MB; it is not a report of octavo doctor"
            ) from None
        reason = f"{path} cannot be read: {error.strerror}"
        raise UsageError(f"{reason}; give a file of octavo doctor --format json") from None
    try:
        return parse_json(content)
    except UsageError:
        raise UsageError(f"{path} is not JSON; give a file written by octavo doctor --format json") from None


def parse_json(content: bytes) -> Any:
    """The parsed content of the bytes. Raises UsageError when they are not JSON."""
    try:
        return json.loads(content, parse_constant=_refuse, parse_float=_finite, parse_int=_of_64_bits)
    except (ValueError, RecursionError):
        raise UsageError("it is not JSON") from None


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is too large")
    return number


def _of_64_bits(text: str) -> int:
    """The integer. Raises ValueError from 2^64 on: no fact is larger, and a float can hold all that are smaller."""
    if abs(number := int(text)) >= 2**64:
        raise ValueError(f"{text} is too large")
    return number


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
