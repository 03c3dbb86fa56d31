"""Ended trials that the store has not acknowledged yet: a file each in OCTAVO_HOME, synced before the trial is
reported.

A trial is kept first, then sent, and dropped when the store has committed it. If something is killed or disconnected in
between, it is sent again: the store recognises it by its identity. A trial that can never be stored is set aside.
"""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.home import make_directory, octavo_home, replace_file, sync_directory
from octavo.host.careful_open import read_bytes
from octavo.store.records import TrialRecord
from octavo.store.set_aside import Notice, SetAside, unheard
from octavo.store.trial_json import decode, encode

_MOST_BYTES = 256 * 1024**2
_NAME = re.compile(r"(\d{20})-([0-9a-f]{32})\.json")


def new_identity() -> str:
    """An identity for a trial that has just ended: 128 random bits."""
    return secrets.token_hex(16)


class KeptTrials:
    """The trials that one directory keeps, in the order in which they ended."""

    def __init__(self, directory: Path, aside: SetAside | None = None, notice: Notice = unheard) -> None:
        """`aside` takes those that can never be stored, and `notice` a line for each."""
        self._directory = directory
        self._aside = aside or SetAside(directory.with_name("set-aside-trials"))
        self._notice = notice

    @classmethod
    def of_this_home(cls, notice: Notice = unheard) -> "KeptTrials":
        """Those of OCTAVO_HOME."""
        return cls(octavo_home() / "kept-trials", notice=notice)

    def keep(self, run: str, record: TrialRecord) -> None:
        """Writes it durably. Raises HostError when it cannot be; ValueError when it has no identity of ours."""
        name = f"{int(record.ended * 1e6):020}-{record.identity}.json"
        if not _NAME.fullmatch(name):
            raise ValueError(f"{record.identity!r} was not made by new_identity()")
        try:
            make_directory(self._directory, 0o700)
            replace_file(self._directory / name, encode(run, record), durable=True, mode=0o600)
            sync_directory(self._directory)
        except OSError as error:
            raise HostError(
                f"the trial could not be kept in {self._directory}: {error.strerror}; make room there"
            ) from error

    def waiting(self) -> Iterator[tuple[str, TrialRecord]]:
        """The runs and trials that were not acknowledged, the oldest first; another process may drop some meanwhile.

        A file that is no trial of ours is set aside. Raises HostError when one cannot be read.
        """
        for path in self._paths():
            try:
                content = read_bytes(path, _MOST_BYTES)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise HostError(f"{path} cannot be read: {error.strerror}") from error
            try:
                run, record = decode(content)
            except OctavoError as error:
                self._notice(self._aside.put(content, "", str(error)))
                path.unlink(missing_ok=True)
                continue
            yield run, record

    def set_aside(self, run: str, record: TrialRecord, reason: str) -> None:
        """The store will never take it."""
        self._notice(self._aside.put_trial(run, record, reason))
        self.drop(str(record.identity))

    def drop(self, identity: str) -> None:
        """The store has it."""
        for path in self._paths():
            if path.name.endswith(f"-{identity}.json"):
                path.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._paths())

    def _paths(self) -> list[Path]:
        try:
            return sorted(path for path in self._directory.iterdir() if _NAME.fullmatch(path.name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HostError(f"{self._directory} cannot be read: {error.strerror}") from error
