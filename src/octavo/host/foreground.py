"""A child that has the user's terminal, such as psql: journaled as every child, but in the session of the user.

The terminal sends Ctrl-C to the whole foreground process group, which includes Octavo; Octavo leaves it to the child.
"""

import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from octavo.errors import HostError
from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import TOKEN_VARIABLE, Journal

# What the keyboard sends (termios(3): INTR and QUIT), and what ends Octavo itself.
_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE_SECONDS = 5.0
# Until then the finalizer that has dropped a signal has most likely ended; else it is sent once more.
_AGAIN_SECONDS = 0.05


def run_in_foreground(
    arguments: Sequence[str | Path],
    journal: Journal,
    *,
    role: str,
    environment: Mapping[str, str],
    account: Account | None = None,
) -> int:
    """Runs a child on our own standard streams and terminal, and returns its exit code as a shell counts it.

    Ctrl-C and Ctrl-\\ are left to the child. If we are ended meanwhile, so is the child, and the terminal's modes
    are restored. With an `account` the child is confined as in `children.start`, and processes that it leaves behind
    are killed; it stays in our process group, which has the terminal. Raises HostError when the program cannot be
    started.
    """
    command, own = [str(argument) for argument in arguments], None
    if account is not None:
        command, own = children.confined(command, journal, account)

    def begin() -> "subprocess.Popen[str]":
        return subprocess.Popen(command, text=True, env={**environment, TOKEN_VARIABLE: journal.token})

    with _terminal_modes_kept(), _keyboard_left_to_child():
        try:
            child = children.filtered(begin, account)
        except OSError as error:
            raise HostError(f"cannot start {arguments[0]}: {error.strerror}") from error
        number = children.record(child.pid, journal, role, signal.SIGTERM, own)
        try:
            code = child.wait()
        except BaseException:
            child.terminate()
            try:
                child.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            raise
        finally:
            children.ended(journal, number)
    return code if code >= 0 else 128 - code


def become(arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Puts the program in the place of this process: its exit code and its signals are then ours.

    Raises HostError when the environment's PATH does not have it.
    """
    sys.stdout.flush()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python at its start, and the program would inherit it
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(arguments[0], list(arguments), environment)  # noqa: S606 (a list of arguments, no shell)
    except OSError as error:
        raise HostError(f"cannot start {arguments[0]}: {error.strerror}") from error


def interrupt_once() -> None:
    """From now on the first SIGINT, SIGTERM or SIGHUP is a KeyboardInterrupt, and those that follow are ignored.

    A second one would interrupt the cleanup that the first has begun. Impatient users send it, and so does a closing
    terminal: SIGHUP from the shell, and from the kernel when the shell has ended. Signals ignored by nohup or a shell's
    `&` stay ignored. A SIGINT that the launcher blocked while Python starts arrives now.

    Python drops an exception that a finalizer or the callback of a weak reference raises (sys.unraisablehook). If that
    is our KeyboardInterrupt, the signal is sent once more.
    """

    arrived: int | None = None
    report = sys.unraisablehook

    def interrupt(number: int, _frame: FrameType | None) -> None:
        """It does not set SIG_IGN for later signals, because processes started for the cleanup would inherit that."""
        nonlocal arrived
        if arrived is None:
            arrived = number
            raise KeyboardInterrupt

    def repeat(unraisable: "sys.UnraisableHookArgs") -> None:
        nonlocal arrived
        if arrived is None or not isinstance(unraisable.exc_value, KeyboardInterrupt):
            report(unraisable)
            return
        again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), arrived))
        arrived = None
        again.daemon = True
        again.start()

    sys.unraisablehook = repeat
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def no_more_interrupts() -> None:
    """For the end of the process: while Python shuts down signals have their default action, and one would set our exit
    code.

    Ignored and not only blocked: threads of libraries, such as numpy's, take what the main thread blocks.
    """
    sys.unraisablehook = _report_but_for_signals
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _report_but_for_signals(unraisable: "sys.UnraisableHookArgs") -> None:
    """Leaves out the OSError of a signal that came just before it was ignored.

    Python prints it with a traceback: "ignored due to race condition" (Modules/signalmodule.c).
    """
    if not isinstance(unraisable.exc_value, OSError) or unraisable.object is not None:
        sys.__unraisablehook__(unraisable)


@contextmanager
def _keyboard_left_to_child() -> Generator[None, None, None]:
    def leave(_number: int, _frame: FrameType | None) -> None:
        """Does nothing; a handler, and not SIG_IGN, because that one would be inherited by the child."""

    before = {number: signal.signal(number, leave) for number in _KEYBOARD}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is leave:  # else an interrupt has ignored it meanwhile, for good
                signal.signal(number, handler)


@contextmanager
def _terminal_modes_kept() -> Generator[None, None, None]:
    """Gives the terminal its modes back, which a child that is ended while it edits a line does not."""
    descriptor = sys.__stdin__.fileno() if sys.__stdin__ else -1
    modes = termios.tcgetattr(descriptor) if descriptor >= 0 and os.isatty(descriptor) else None
    try:
        yield
    finally:
        if modes is not None:
            with suppress(termios.error):  # it may have been closed
                termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
