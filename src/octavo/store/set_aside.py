"""Trials that no store will ever accept: moved aside so that later ones are stored, each with the reason, never
deleted.

A trial is two files in OCTAVO_HOME/set-aside-trials: `NAME.json` as it was, and `NAME.reason` with the run and the
reason. The name is the digest of the content: setting a trial aside again changes nothing.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from octavo.errors import HostError
from octavo.home import make_directory, octavo_home, replace_file, sync_directory
from octavo.host.safe_read import read_text
from octavo.store.records import TrialRecord
from octavo.store.trial_json import encode
from octavo.text import one_line

_LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class SetAsideTrial:
    """A trial that was set aside. `run` is empty if the content does not contain it."""

    run: str
    reason: str
    file: str


class SetAside:
    """The trials that one directory has."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    def of_this_home(cls) -> "SetAside":
        """Those of OCTAVO_HOME."""
        return cls(octavo_home() / "set-aside-trials")

    def put(self, content: bytes, run: str, reason: str) -> str:
        """Writes content and reason durably; returns a line for the user. Raises HostError when it cannot."""
        path = self._directory / f"{hashlib.sha256(content).hexdigest()[:32]}.json"
        why = one_line(reason)[:_LONGEST_REASON]
        try:
            make_directory(self._directory, 0o700)
            replace_file(path, content, durable=True, mode=0o600)
            note = json.dumps({"run": run, "reason": why}).encode()
            replace_file(path.with_suffix(".reason"), note, durable=True, mode=0o600)
            sync_directory(self._directory)
        except OSError as error:
            raise HostError(
                f"a trial could not be set aside in {self._directory}: {error.strerror}; make room there"
            ) from error
        return f"a trial cannot be stored and is set aside in {path}: {why}"

    def put_trial(self, run: str, record: TrialRecord, reason: str) -> str:
        """The same for a trial."""
        try:
            content = encode(run, record)
        except (TypeError, ValueError):  # what JSON has no place for either
            content = repr(record).encode(errors="replace")
        return self.put(content, run, reason)

    def listed(self) -> list[SetAsideTrial]:
        """All of them, by file. Notes that are none of ours are left out."""
        found: list[SetAsideTrial] = []
        try:
            paths = sorted(self._directory.glob("*.reason"))
        except OSError:
            return []
        for path in paths:
            try:
                note = json.loads(read_text(path))
                run, reason = one_line(note["run"]), one_line(note["reason"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                continue
            found.append(SetAsideTrial(run, reason, str(path.with_suffix(".json"))))
        return found

    def rows(self) -> list[dict[str, str]]:
        """The same for JSON."""
        return [asdict(one) for one in self.listed()]


Notice = Callable[[str], None]


def unheard(_: str) -> None:
    """Ignores its argument."""
