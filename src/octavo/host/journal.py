"""The journal: what an Octavo process started or made, written down before it happens, undone at the end.

One file per Octavo process, one JSON line per entry, locked while its owner lives. A file that nobody
locks belongs to an owner that was killed: the next command replays it backwards (`recover`).
"""

import fcntl
import json
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Self

from octavo.home import make_directory, octavo_home, sync_directory
from octavo.host.process import ProcessIdentity, end, find_by_environment, is_alive, itself
from octavo.host.undo import Entry, Undone, thaw, undo

# Set in the environment of every child, so that a child is found whose pid was not yet written down.
TOKEN_VARIABLE = "OCTAVO_TOKEN"

# A child that its owner had forked when it was killed has this variable only once it is a program of its own, and may
# hold a mount or a group, or make its directory anew, until it is found. Until then it may hold the owner's lock, too.
_HUNTS = 6
_BETWEEN_HUNTS_SECONDS = 0.1
_LOCK_PATIENCE_SECONDS = 2.0
_BETWEEN_LOCKS_SECONDS = 0.01


def _journal_directory() -> Path:
    return octavo_home() / "journal"


def _to_stderr(told: Undone) -> None:
    print(f"octavo: {told}", file=sys.stderr)


class Journal:
    """The open journal of this process; a context manager that undoes what is still open at its end.

    `notice` is told what could not be undone, or was left because somebody else has changed it since.
    """

    def __init__(self, notice: Callable[[Undone], None] = _to_stderr) -> None:
        self._notice = notice
        self.token = uuid.uuid4().hex
        directory = make_directory(_journal_directory())
        self.path = directory / f"{self.token}.jsonl"
        # Made under another name, locked and signed before it shows, so that nobody finds it unlocked or nobody's.
        hidden = directory / f".{self.token}"
        self._file = hidden.open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._write({"number": 0, "kind": "owner", **asdict(itself())})
        hidden.rename(self.path)
        sync_directory(directory)
        self._open: dict[int, Entry] = {}
        self.children: Path | None = None
        """The control group of all its children, once there is one (`child_group`)."""
        self.groups: dict[int, Path] = {}
        """The control group of each child that runs, by its number."""
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
        self._file.close()

    def record(self, kind: str, **facts: Any) -> int:
        """Writes an entry to disk before what it names is done. Returns its number, for `done`."""
        with self._lock:
            self._next += 1
            entry: Entry = {"number": self._next, "kind": kind, **facts}
            self._open[self._next] = entry
            self._write(entry)
            return self._next

    def amend(self, number: int, **facts: Any) -> None:
        """Adds to an entry what was not known before the thing was done."""
        with self._lock:
            self._open[number] |= facts
            self._write(self._open[number])

    def undo(self, number: int) -> None:
        """Undoes one entry now. One that cannot be undone stays open, and is tried again at the end."""
        entry = self._open.get(number)
        if entry is None:
            return
        told = undo(entry)
        if told is not None and told.what != "put back":
            self._notice(told)
        if told is None or told.what != "failed":
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


def recover() -> list[str]:
    """Undoes what killed Octavo processes left behind. Returns a line for each thing put right, or not."""
    return [told.line for told in restore()]


def restore() -> list[Undone]:
    """Undoes what killed Octavo processes left behind, and says what became of each thing."""
    directory = _journal_directory()
    if not directory.is_dir():
        return []
    everything: list[Undone] = []
    for path in sorted(directory.glob("*.jsonl")):
        try:
            file = path.open("r+", errors="replace")
        except (FileNotFoundError, PermissionError):  # gone meanwhile, or another user's
            continue
        with file:
            if not _locks(file):
                continue
            told, failed = _replay(path.stem, file.read())
            everything += told
            if failed:
                _keep(path, failed)
            else:
                path.unlink(missing_ok=True)
    return everything


def _locks(file: IO[str]) -> bool:
    """Whether this journal's owner is dead, and it is ours to replay now."""
    deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if _owner_lives(file) or time.monotonic() > deadline:
                return False
        time.sleep(_BETWEEN_LOCKS_SECONDS)


def _owner_lives(file: IO[str]) -> bool:
    """Whether the process lives that signed this journal in its first line."""
    file.seek(0)
    try:
        first = json.loads(file.readline())
    except ValueError:  # unsigned, of an earlier version: its lock alone says so
        return True
    finally:
        file.seek(0)
    return first["kind"] != "owner" or is_alive(ProcessIdentity(first["pid"], first["start_time"], first["boot_id"]))


def _keep(path: Path, entries: list[Entry]) -> None:
    """Leaves in the journal what could not be undone, in its order, for the next command."""
    beside = path.with_name(f".{path.stem}")
    beside.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    beside.replace(path)


def is_owned(token: str) -> bool:
    """Whether the Octavo process with this token still lives."""
    try:
        with (_journal_directory() / f"{token}.jsonl").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _open_entries(text: str) -> list[Entry]:
    """The entries of a journal that nothing has undone yet, in their order."""
    entries: dict[int, Entry] = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the line that was being written when the power went
            continue
        if entry["kind"] == "done":
            entries.pop(entry["number"], None)
        elif entry["kind"] != "owner":
            entries[entry["number"]] = entry
    return list(entries.values())


def _replay(token: str, text: str) -> tuple[list[Undone], list[Entry]]:
    """Undoes a journal backwards, processes first. Returns what was told, and the entries that failed."""
    backwards = _open_entries(text)[::-1]
    thaw([entry for entry in backwards if entry["kind"] == "children"])
    told, failed = _undo_all([entry for entry in backwards if entry["kind"] == "process"])
    others = [entry for entry in backwards if entry["kind"] != "process"]
    stuck: list[tuple[Entry, Undone]] = []
    for hunt in range(_HUNTS):
        found = find_by_environment(TOKEN_VARIABLE, token)
        for identity in found:
            end(identity, signal.SIGQUIT)
            told.append(Undone("put back", f"ended process {identity.pid}, left by a command that was killed"))
        undone, stuck = _undo_all(others)
        told += undone
        if hunt > 0 and not found and not stuck:
            break
        failing = [entry for entry, _ in stuck]
        others = [entry for entry in others if entry in failing or entry["kind"] == "directory"]
        time.sleep(_BETWEEN_HUNTS_SECONDS)
    failed += stuck
    return told + [became for _, became in failed], sorted((entry for entry, _ in failed), key=itemgetter("number"))


def _undo_all(entries: list[Entry]) -> tuple[list[Undone], list[tuple[Entry, Undone]]]:
    """Undoes these entries. Returns what became of them, and apart those that failed."""
    told: list[Undone] = []
    failed: list[tuple[Entry, Undone]] = []
    for entry in entries:
        if (became := undo(entry)) is None:
            continue
        if became.what == "failed":
            failed.append((entry, became))
        else:
            told.append(became)
    return told, failed
