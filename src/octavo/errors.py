"""The errors that users see: one line each, with the cause and the fix."""

import errno
from collections.abc import Iterable

_WRONG_NAME = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})
_CLOSE = 0.75


class OctavoError(Exception):
    """Base of all errors that are printed in one line, without a traceback. Exit code 1."""

    exit_code = 1


class UsageError(OctavoError):
    """A flag, a plan or a level that does not exist. Exit code 2."""

    exit_code = 2


class HostError(OctavoError):
    """This host cannot do it: a right, a package, a kernel feature or disk space is missing. Exit code 3."""

    exit_code = 3


class StoreAwayError(HostError):
    """The store's server does not respond, or disconnected meanwhile: the data may or may not have been written."""


class UnstorableError(OctavoError):
    """No store will ever take this trial: another one has its identity, or a value in it fits no column."""


class TrialsFailed(OctavoError):
    """The run ended, but some of its trials failed, or none is valid. Exit code 4."""

    exit_code = 4


class Interrupted(OctavoError):
    """The user stopped it; what was finished is kept. Exit code 130."""

    exit_code = 130


def cannot_read(error: OSError, message: str) -> OctavoError:
    """The error for a file that a user named: a wrong name is wrong usage, what the system refuses is the host's.

    >>> cannot_read(FileNotFoundError(2, "x"), "x").exit_code, cannot_read(PermissionError(13, "x"), "x").exit_code
    (2, 3)
    """
    return (UsageError if error.errno in _WRONG_NAME else HostError)(message)


def choices(wrong: str, allowed: Iterable[str]) -> str:
    """The names to suggest for an unknown name: the one that it resembles, or all.

    >>> choices("clinets", ["clients", "scale"]), choices("data_page", ["clients", "scale"])
    ('did you mean clients?', 'allowed: clients, scale')
    """
    import difflib

    names = list(allowed)
    close = difflib.get_close_matches(wrong, names, 1, _CLOSE)
    return f"did you mean {close[0]}?" if close else f"allowed: {', '.join(names)}"
