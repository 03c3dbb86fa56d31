"""The journal: what an Octavo process starts or creates, recorded before it happens and undone at the end.

One file per Octavo process, one JSON line per entry, locked while its owner lives. An unlocked file belongs to an owner
that was killed: the next command replays it backwards (`recover`).
"""

import errno
import fcntl
import io
import json
import os
import re
import signal
import stat
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Literal, Self, cast

from octavo.errors import OctavoError
from octavo.home import make_directory, octavo_home, replace_file, secure_home, sync_directory
from octavo.host.kernel_text import shown
from octavo.host.owner import owner_of
from octavo.host.process import ProcessIdentity, end, find_by_environment, is_alive, itself
from octavo.host.trusted_paths import state_path
from octavo.host.undo import Entry, Undone, cut, thaw, undo

# Set in the environment of every child, so that a child is found whose pid was not yet written down.
TOKEN_VARIABLE = "OCTAVO_TOKEN"

# A child that its owner had forked when it was killed has this variable only once it is a program of its own, and may
# hold a mount or a group, or make its directory anew, until it is found. Until then it may hold the owner's lock, too.
_HUNTS = 6
_BETWEEN_HUNTS_SECONDS = 0.1
_LOCK_PATIENCE_SECONDS = 10.0
_BETWEEN_LOCKS_SECONDS = 0.01

# What a command that was killed just then had begun: its journal, or what it kept of another one (`replace_file`).
_UNBORN = re.compile(r"\.([0-9a-f]{32}|[0-9a-f]{16}\.new)")

# More than any run writes; what is larger is no journal, and would only be read for ever.
_LARGEST = 1 << 30
_LONGEST_LINE = 1 << 20


def _journal_directory() -> Path:
    return octavo_home() / "journal"


def _to_stderr(told: Undone) -> None:
    print(f"octavo: {told}", file=sys.stderr)


class Journal:
    """The open journal of this process; a context manager that undoes what is still open at its end.

    `notice` gets messages about changes that could not be undone, or were left because somebody else has changed the
    value since.
    """

    def __init__(self, notice: Callable[[Undone], None] = _to_stderr) -> None:
        self._notice = notice
        self.token = uuid.uuid4().hex
        directory = make_directory(_journal_directory(), 0o700)
        secure_home()
        self.path = directory / f"{self.token}.jsonl"
        # Made under another name, locked and signed before it shows, so that nobody finds it unlocked or nobody's.
        hidden = directory / f".{self.token}"
        self._file = _begun(hidden)
        try:
            self._write({"number": 0, "kind": "owner", **asdict(itself())})
            hidden.rename(self.path)
        except BaseException:  # a full disk
            hidden.unlink(missing_ok=True)
            with suppress(OSError):  # what could not be written, once more
                self._file.close()
            raise
        sync_directory(directory)
        self._open: dict[int, Entry] = {}
        self.children: Path | None = None
        """The control group of all its children, once there is one (`child_group`)."""
        self.groups: dict[int, Path] = {}
        """The control group of each child that runs, by its number."""
        self.shared_memory: int | None = None
        """The number of the entry for what killed servers leave, once there is one (`postgres.shared_memory_left`)."""
        self._next = 0
        self._lock = threading.Lock()  # a finished build is published beside the ones still compiling

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number in reversed(list(self._open)):
            self.undo(number)
        # A child whose start was interrupted before it could be recorded.
        for identity in find_by_environment(TOKEN_VARIABLE, self.token):
            end(identity, signal.SIGQUIT)
        if not self._open:  # else the next command tries again
            self.path.unlink(missing_ok=True)
        with suppress(OSError):  # a note of `done` that a full disk has refused
            self._file.close()

    def record(self, kind: str, **facts: Any) -> int:
        """Writes an entry to disk before the change that it describes is made. Returns its number, for `done`."""
        with self._lock:
            self._next += 1
            entry = _as_read_back({"number": self._next, "kind": kind, **facts})
            self._open[self._next] = entry
            self._write(entry)
            return self._next

    def amend(self, number: int, **facts: Any) -> None:
        """Adds facts to an entry that were not known before the change was made."""
        with self._lock:
            self._open[number] |= _as_read_back(facts)
            self._write(self._open[number])

    def undo(self, number: int) -> None:
        """Undoes one entry now. One that cannot be undone stays open, and is tried again at the end."""
        entry = self._open.get(number)
        if entry is None:
            return
        reported = undo(entry)
        if reported is not None and reported.what != "put back":
            self._notice(reported)
        if reported is None or reported.what != "failed":
            self.done(number)

    def done(self, number: int) -> None:
        """Notes that this entry needs no undoing any more.

        A full disk may refuse the note: undoing twice is harmless, and cleaning up must go on.
        """
        with self._lock:
            if self._open.pop(number, None) is not None:
                with suppress(OSError):
                    self._write({"number": number, "kind": "done"})

    def _write(self, line: Entry) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _as_read_back(entry: Entry) -> Entry:
    """The entry as a later command finds it, so that it is undone alike by whoever undoes it."""
    return json.loads(json.dumps(entry))


def _begun(path: Path) -> IO[str]:
    """A new file, locked. Raises OSError.

    One that is not locked yet may be taken for a dead process's, and removed: then it is made anew.
    """
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        file = os.fdopen(descriptor, "a", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return file
        file.close()


def _remove_unborn(name: str, directory: int) -> None:
    """Removes a file that nothing depends on yet. If its process lives after all, that journal stays whole."""
    with suppress(OSError):  # it is gone or locked, or not for us
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
        with os.fdopen(descriptor, "rb"):
            if _not_a_journal(os.fstat(descriptor)) is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=directory)


def recover() -> list[str]:
    """Undoes what killed Octavo processes left behind. Returns a line for each thing put right, or not."""
    return [reported.line for reported in restore()]


def restore() -> list[Undone]:
    """Undoes the changes that killed Octavo processes left behind, and returns a message on each.

    Only journals written by this user, where nobody else can write, are used; others are reported and left.
    """
    path = _journal_directory()
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Undone("left", f"left the journals in {path}: {error.strerror}")]
    try:
        if why := _not_ours(os.fstat(directory)):
            return [Undone("left", f"left the journals in {path}: the directory {why}")]
        entries = [entry.name for entry in os.scandir(directory)]
        for name in entries:
            if _UNBORN.fullmatch(name):
                _remove_unborn(name, directory)
        names = sorted(name for name in entries if name.endswith(".jsonl"))
        return [reported for name in names for reported in _restore_one(path / name, directory)]
    finally:
        os.close(directory)


def _restore_one(path: Path, directory: int) -> list[Undone]:
    """Replays one journal whose owner is dead."""
    try:
        descriptor = os.open(path.name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except FileNotFoundError:  # gone meanwhile
        return []
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        return [Undone("left", f"left {shown(str(path))}: {why}")]
    with os.fdopen(descriptor, "rb", buffering=0) as raw:
        if why := _not_a_journal(os.fstat(descriptor)):
            return [Undone("left", f"left {shown(str(path))}: it {why}")]
        file = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", errors="replace", newline="\n")
        state = _locks(file)
        if state != "ours":
            still = f"could not replay {path}: its owner is dead, but a process holds its lock; will be tried again"
            return [Undone("failed", still)] if state == "held" else []
        if not _is_still(path.name, directory, descriptor):  # another command has replayed it since it was opened
            return []
        reported, failed = _replay(path, file)
        if failed:
            with suppress(OSError):  # on a full disk the whole journal stays: to undo it twice is harmless
                _keep(path, failed)
        else:
            path.unlink(missing_ok=True)
        return reported


def _is_still(name: str, directory: int, descriptor: int) -> bool:
    """Whether the open file still has this name."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=directory, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _not_ours(facts: os.stat_result) -> str | None:
    """Why others can have written what has these facts, or None."""
    if (owner := owner_of(facts)) != os.geteuid():
        return f"belongs to user {owner}"
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"is writable by others (mode {stat.S_IMODE(facts.st_mode):04o})"
    return None


def _not_a_journal(facts: os.stat_result) -> str | None:
    """Why a file is not to be obeyed, or None."""
    if not stat.S_ISREG(facts.st_mode):
        return "is not a file"
    if facts.st_nlink != 1:
        return "has a second name (hard link)"
    if facts.st_size > _LARGEST:
        return f"is larger than any journal ({facts.st_size} bytes)"
    return _not_ours(facts)


def _locks(file: IO[str]) -> Literal["ours", "alive", "held"]:
    """Whether this journal's owner is dead, and it is `ours` to replay now; `held`: somebody else has its lock."""
    deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return "ours"
        except BlockingIOError:
            if _owner_lives(file):
                return "alive"
            if time.monotonic() > deadline:
                return "held"
        time.sleep(_BETWEEN_LOCKS_SECONDS)


def _owner_lives(file: IO[str]) -> bool:
    """Whether the process lives that signed this journal in its first line."""
    file.seek(0)
    try:
        first = json.loads(file.readline(_LONGEST_LINE))
        owner = ProcessIdentity(first["pid"], first["start_time"], first["boot_id"])
        return first["kind"] != "owner" or is_alive(owner)
    except (ValueError, RecursionError, TypeError, KeyError):  # unsigned: its lock alone says so
        return True
    finally:
        file.seek(0)


def _keep(path: Path, entries: list[Entry]) -> None:
    """Leaves in the journal what could not be undone, in its order, for the next command."""
    replace_file(path, "".join(json.dumps(entry) + "\n" for entry in entries).encode(), mode=0o600)


def is_owned(token: str) -> bool:
    """Whether the Octavo process with this token still lives."""
    path = _journal_directory() / f"{token}.jsonl"
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none, or it is not for us
        return False
    return False


def _open_entries(path: Path, file: IO[str]) -> tuple[list[Entry], list[Undone]]:
    """The entries of a journal that nothing has undone yet, in their order; and the lines that are none."""
    entries: dict[int, Entry] = {}
    lines: list[Undone] = []
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        entry = _entry(line)
        if entry is None:
            lines.append(Undone("left", f"left line {number} of {path}, which is not a complete entry: {cut(line)}"))
            while not line.endswith("\n") and (line := file.readline(_LONGEST_LINE)):
                pass  # the rest of a line without an end
        elif entry["kind"] == "done":
            entries.pop(entry["number"], None)
        elif entry["kind"] != "owner":
            entries[entry["number"]] = entry
    return list(entries.values()), lines


def _entry(line: str) -> Entry | None:
    """The entry that a line is; None for any other line, as the one that was being written when the power went."""
    try:
        entry = json.loads(line) if line.endswith("\n") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    found = cast(Entry, entry)
    return found if type(found.get("number")) is int and isinstance(found.get("kind"), str) else None


def _replay(path: Path, file: IO[str]) -> tuple[list[Undone], list[Entry]]:
    """Undoes a journal backwards, processes first. Returns what was told, and the entries that failed."""
    entries, damaged = _open_entries(path, file)
    backwards = entries[::-1]
    thaw([entry for entry in backwards if entry["kind"] == "children"])
    reported, failed = _undo_all([entry for entry in backwards if entry["kind"] == "process"])
    reported = damaged + reported
    others = [entry for entry in backwards if entry["kind"] != "process"]
    stuck: list[tuple[Entry, Undone]] = []
    for hunt in range(_HUNTS):
        found = find_by_environment(TOKEN_VARIABLE, path.stem)
        for identity in found:
            end(identity, signal.SIGQUIT)
            reported.append(Undone("put back", f"ended process {identity.pid}, left by a command that was killed"))
        undone, stuck = _undo_all(others)
        reported += undone
        if hunt > 0 and not found and not stuck:
            break
        failing = [entry for entry, _ in stuck]
        # A directory may be made anew by a child that is found only now; one that is not ours to remove is told once.
        again = [entry for entry in others if entry["kind"] == "directory" and _is_ours(entry)]
        others = [entry for entry in others if entry in failing or entry in again]
        time.sleep(_BETWEEN_HUNTS_SECONDS)
    failed += stuck
    return reported + [became for _, became in failed], sorted((entry for entry, _ in failed), key=itemgetter("number"))


def _is_ours(entry: Entry) -> bool:
    try:
        state_path(entry.get("path"))
    except (OctavoError, OSError):
        return False
    return True


def _undo_all(entries: list[Entry]) -> tuple[list[Undone], list[tuple[Entry, Undone]]]:
    """Undoes these entries. Returns what became of them, and apart those that failed."""
    lines: list[Undone] = []
    failed: list[tuple[Entry, Undone]] = []
    for entry in entries:
        if (became := undo(entry)) is None:
            continue
        if became.what == "failed":
            failed.append((entry, became))
        else:
            lines.append(became)
    return lines, failed
