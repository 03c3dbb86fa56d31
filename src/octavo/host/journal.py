"""The journal: what an Octavo process started or made, written down before it happens, undone at the end.

One file per Octavo process, one JSON line per entry, locked while its owner lives. A file that nobody
locks belongs to an owner that was killed: the next command replays it backwards (`recover`).
"""

import fcntl
import json
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from octavo.home import make_directory, octavo_home
from octavo.host import cgroup
from octavo.host.process import ProcessIdentity, end, find_by_environment, is_alive

# Set in the environment of every child, so that a child is found whose pid was not yet written down.
TOKEN_VARIABLE = "OCTAVO_TOKEN"

Entry = dict[str, Any]


def _journal_directory() -> Path:
    return octavo_home() / "journal"


class Journal:
    """The open journal of this process; a context manager that undoes what is still open at its end."""

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex
        directory = make_directory(_journal_directory())
        self.path = directory / f"{self.token}.jsonl"
        # Made under another name and locked before it shows, so that nobody finds it unlocked.
        hidden = directory / f".{self.token}"
        self._file = hidden.open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        hidden.rename(self.path)
        self._open: dict[int, Entry] = {}
        self._next = 0
        self._lock = threading.Lock()  # a finished build is published beside the ones still compiling

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number, entry in reversed(list(self._open.items())):
            _undo(entry)
            self.done(number)
        # A child whose start was interrupted before it could be recorded.
        for identity in find_by_environment(TOKEN_VARIABLE, self.token):
            end(identity, signal.SIGQUIT)
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
    """Undoes what killed Octavo processes left behind. Returns a line for each thing put right."""
    directory = _journal_directory()
    if not directory.is_dir():
        return []
    told: list[str] = []
    for path in sorted(directory.glob("*.jsonl")):
        try:
            file = path.open("r+", errors="replace")
        except (FileNotFoundError, PermissionError):  # gone meanwhile, or another user's
            continue
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            told += _replay(path.stem, file.read())
            path.unlink(missing_ok=True)
    return told


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


def _replay(token: str, text: str) -> list[str]:
    entries: dict[int, Entry] = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the line that was being written when the power went
            continue
        if entry["kind"] == "done":
            entries.pop(entry["number"], None)
        else:
            entries[entry["number"]] = entry
    told: list[str] = []
    processes = [entry for entry in reversed(entries.values()) if entry["kind"] == "process"]
    others = [entry for entry in reversed(entries.values()) if entry["kind"] != "process"]
    told += [line for entry in processes if (line := _undo(entry))]
    for identity in find_by_environment(TOKEN_VARIABLE, token):
        end(identity, signal.SIGQUIT)
        told.append(f"ended process {identity.pid}, left by a command that was killed")
    told += [line for entry in others if (line := _undo(entry))]
    return told


def _undo_process(entry: Entry) -> str | None:
    identity = ProcessIdentity(entry["pid"], entry["start_time"], entry["boot_id"])
    if not is_alive(identity):
        return None
    end(identity, signal.Signals(entry["signal"]))
    if is_alive(identity):
        return f"could not end {entry['role']} (pid {identity.pid}), left by a command that was killed"
    return f"ended {entry['role']} (pid {identity.pid}), left by a command that was killed"


def _undo_directory(entry: Entry) -> str | None:
    path = Path(entry["path"])
    if not path.exists():
        return None
    shutil.rmtree(path, ignore_errors=True)
    return f"could not remove {path} whole" if path.exists() else f"removed {path}"


def _undo_cgroup(entry: Entry) -> str | None:
    path = Path(entry["path"])
    if not path.exists():
        return None
    return f"removed the memory group {path}" if cgroup.remove(path) else f"could not remove the memory group {path}"


# Undoing knows only kinds, so that a journal written by one version can be read by the next.
_UNDO: dict[str, Callable[[Entry], str | None]] = {
    "process": _undo_process,
    "directory": _undo_directory,
    "cgroup": _undo_cgroup,
}


def _undo(entry: Entry) -> str | None:
    undo = _UNDO.get(entry["kind"])
    if undo is None:
        return f"do not know how to undo {entry['kind']!r}; a newer Octavo wrote it"
    try:
        return undo(entry)
    except OSError as error:
        return f"could not undo {entry['kind']!r}: {error}"
