"""Traces as files: reads, cuts and converts them. Errors of the core become errors that a user can act on."""

import errno
import os
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from octavo import _core
from octavo.errors import HostError, UsageError, cannot_read
from octavo.host.careful_open import open_file
from octavo.report.text_file import refuse_planted
from octavo.trace.core_types import Missing, Summary

Observe = Callable[[int], object]

READABLE = ("csv", "oracle-general", "iolog", "blktrace")
WRITABLE = ("csv", "oracle-general", "iolog")
# A trace that lost a larger part of its accesses than this is misleading.
MOST_LOST = 0.001
# The source of a trace that has no page accesses.
COUNTERS = "counters of the server"
# Errors of the file being written, not of one that is read at the same time.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def reading(path: Path) -> Generator[Path, None, None]:
    """Opens the file and yields a path by which the core reads it, never through a link that others could have created.

    Raises UsageError if it does not exist, is not a trace or cannot be simulated, HostError if it cannot be read.
    """
    try:
        descriptor = open_file(path)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}; name a file that octavo trace recorded"
        raise cannot_read(error, message) from error
    try:
        yield opened_as(descriptor)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{path}: {error}") from error
    except OSError as error:
        raise HostError(f"{path}: {error.strerror or error}; check that it can be read") from error
    finally:
        os.close(descriptor)


def opened_as(descriptor: int) -> Path:
    """A path by which the core opens an open file again: the same file, even if its name now leads elsewhere
    (proc(5))."""
    return Path(f"/proc/self/fd/{descriptor}")


@contextmanager
def replacing(target: Path) -> Generator[Path, None, None]:
    """Yields a file to write, which replaces the target on success. Raises HostError if it cannot be created, or the
    disk is full."""
    target = target.absolute()
    refuse_planted(target.parent)
    refuse_planted(target)
    beside = target.with_name(f".{secrets.token_hex(8)}.new")
    try:
        descriptor = os.open(beside, NEW_FILE, 0o644)
    except OSError as error:
        raise HostError(f"{target} cannot be written: {error.strerror}; name a file that you may write") from error
    try:
        with writing(target):
            yield opened_as(descriptor)
            beside.replace(target)
    finally:
        os.close(descriptor)
        with suppress(OSError):
            beside.unlink()


@contextmanager
def writing(target: Path) -> Generator[None, None, None]:
    """The core writes to this file. Raises HostError if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise HostError(f"{target} cannot be written: {error.strerror}; name a file where there is room") from error


def ignore_progress(_accesses: int) -> None:
    """Does nothing: for callers that show no progress."""


def summarize(path: Path, observe: Observe = ignore_progress) -> Summary:
    """The contents of a trace. Raises UsageError if it is not a trace, HostError if it cannot be read."""
    with reading(path) as opened:
        return _core.trace_summary(opened, observe)


def require_accesses(path: Path, summary: Summary) -> None:
    """Raises HostError for a trace without accesses, which cannot be simulated."""
    if summary["reads"] + summary["extends"]:
        return
    if summary["properties"].get("source") == COUNTERS:
        raise HostError(
            f"{path} has the server's counters and no page accesses (octavo trace --counters), so that no other size "
            "can be simulated; record with bpftrace or a tracing build"
        )
    raise HostError(f"{path} has no accesses; record for longer, while the server is in use")


def lost_share(summary: Summary) -> float:
    """The part of all accesses that is known to be lost, during the recording or from the file since then."""
    there = summary["reads"] + summary["extends"]
    lost = summary["events"].get("lost", (0, 0))[1] + summary["missing"]["accesses"]
    return lost / (there + lost) if lost else 0.0


def cut(
    source: Path,
    target: Path,
    start: float,
    until: float | None,
    relation: int | None,
    observe: Observe = ignore_progress,
) -> tuple[int, Missing]:
    """Writes the part from `start` to `until` (seconds since the trace's beginning). Returns the number of its
    accesses, and the missing parts of the source. Raises the errors of `summarize`, and HostError when the target
    cannot be written."""
    last = 2**64 - 1 if until is None else round(until * 1e6)
    with reading(source) as opened, replacing(target) as beside:
        return _core.trace_cut(opened, beside, round(start * 1e6), last, relation, observe)


def import_(source: Path, format: str, target: Path, page_size: int) -> int:
    """Converts another program's trace. Returns the number of its accesses. Raises UsageError if the file does not have
    this format."""
    properties = [("recorder", f"octavo trace convert --from {format}"), ("source", format)]
    with reading(source) as opened, replacing(target) as beside:
        return _core.trace_import(opened, format, beside, page_size, properties)


def export(source: Path, format: str, target: Path) -> Missing:
    """Writes a trace in another program's format. Returns its missing parts. Raises the errors of `summarize`."""
    with reading(source) as opened, replacing(target) as beside:
        return _core.trace_export(opened, format, beside)
