"""The trials that a host has measured, committed there before they are sent. There is a file for each run, kept until
all of its trials are delivered.

A trial is identified by its outbox and its number in it. The coordinator acknowledges trials up to a number; later ones
are sent again. A row that Octavo cannot read is set aside, and the rows after it are sent.
"""

import sqlite3
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, make_private_file, octavo_home
from octavo.store import trial_json
from octavo.store.records import TrialRecord
from octavo.store.run_files import checked_id
from octavo.store.set_aside import Notice, SetAside, unheard


class Outbox:
    """The trials of one run on this host. Raises HostError when the disk is full or fails."""

    def __init__(self, run: str, notice: Notice = unheard) -> None:
        """`notice` is called with one line for each row that is set aside."""
        self._run, self._notice = run, notice
        make_directory(octavo_home() / "fleet", 0o700)
        self.path = _path(run)
        make_directory(self.path.parent, 0o700)
        make_private_file(self.path)
        with self._errors_named():
            # One thread uses it at a time, but in somebody else's Dask not always the same one (`WorkQueue`).
            self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            for pragma in ("journal_mode=WAL", "synchronous=FULL"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute("CREATE TABLE IF NOT EXISTS outbox (name TEXT NOT NULL)")
            # AUTOINCREMENT: the number of a row that was set aside is never reused, because the coordinator may have
            # it.
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS trial (number INTEGER PRIMARY KEY AUTOINCREMENT, record BLOB)"
            )
            self._connection.execute(
                "INSERT INTO outbox SELECT ? WHERE NOT EXISTS (SELECT 1 FROM outbox)", (uuid.uuid4().hex,)
            )
            (self.name,) = self._connection.execute("SELECT name FROM outbox").fetchone()

    def add(self, record: TrialRecord) -> TrialRecord:
        """Commits a trial durably and returns it."""
        with self._errors_named():
            self._connection.execute("INSERT INTO trial (record) VALUES (?)", (trial_json.encode(self._run, record),))
        return record

    def trials(self, after: int = 0) -> list[tuple[int, TrialRecord]]:
        """The trials after that number, each with its number."""
        with self._errors_named():
            query = "SELECT number, record FROM trial WHERE number > ? ORDER BY 1"
            rows = self._connection.execute(query, (after,)).fetchall()
        found: list[tuple[int, TrialRecord]] = []
        for number, record in rows:
            try:
                found.append((number, trial_json.decode(record)[1]))
            except OctavoError as error:
                self._set_aside(number, record, str(error))
        return found

    def last(self) -> int:
        """The number of the last trial, 0 without one."""
        with self._errors_named():
            (number,) = self._connection.execute("SELECT coalesce(max(number), 0) FROM trial").fetchone()
        return int(number)

    def _set_aside(self, number: int, record: object, reason: str) -> None:
        content = record if isinstance(record, bytes) else str(record).encode(errors="replace")
        self._notice(SetAside.of_this_home().put(content, self._run, reason))
        with self._errors_named():
            self._connection.execute("DELETE FROM trial WHERE number = ?", (number,))

    def undelivered(self, have: Mapping[str, int]) -> list[tuple[int, TrialRecord]]:
        """The trials that the coordinator does not have."""
        return self.trials(have.get(self.name, 0))

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def remove(self) -> None:
        """Closes and removes the file, once everything in it is delivered."""
        self._connection.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def _errors_named(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.Error as error:
            raise HostError(f"{self.path} cannot be written: {error}; free space there") from error


def remove_delivered(run: str, have: Mapping[str, int]) -> None:
    """Removes the outbox of a finished run, if it exists and the coordinator has all of its trials."""
    if _path(run).exists():
        outbox = Outbox(run)
        if outbox.undelivered(have):
            outbox.close()
        else:
            outbox.remove()


def _path(run: str) -> Path:
    return octavo_home() / "fleet" / "outbox" / f"{checked_id(run)}.sqlite"
