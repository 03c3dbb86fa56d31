"""Runs work with a time limit where others may block it for ever, such as access to a filesystem that does not
respond."""

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def in_time(work: Callable[[], Result], seconds: float) -> Result:
    """Returns or raises what the work does. Raises TimeoutError if it has not ended within so many seconds.

    The work then continues in its own thread, which ends with the process. From then on no call may change the
    process's user, because that waits for every thread (nptl(7)).
    """
    found: list[Result] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run, name="in time", daemon=True)
    thread.start()
    thread.join(seconds)
    if problems:
        raise problems[0]
    if not found:
        raise TimeoutError
    return found[0]
