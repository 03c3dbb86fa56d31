"""The text for an unexpected error, from a workload, an instrument or a knob."""

import traceback
from pathlib import Path

import psycopg

from octavo.errors import HostError, OctavoError
from octavo.text import one_line

_PACKAGE = Path(__file__).parents[1]


def failure_reason(error: Exception) -> str:
    """Why a trial or a load failed, in one line; for an unexpected error with its type, file and line.

    Raises the error itself when it would also fail every later trial: HostError, and OSError, usually a full disk, but
    not that a process of this trial has ended.
    """
    own = isinstance(error, psycopg.Error | ProcessLookupError)
    if isinstance(error, HostError) or (isinstance(error, OSError) and not own):
        raise error
    text = one_line(error)
    if isinstance(error, (OctavoError, psycopg.Error)):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({_short(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{f': {text}' if text else ''}{where}"


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(_PACKAGE.parent)) if path.is_relative_to(_PACKAGE) else str(path)
