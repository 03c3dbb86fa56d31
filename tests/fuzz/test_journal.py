"""The journals of killed commands, and the record of applied huge pages. Nothing is undone here."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.errors import HostError
from octavo.host import journal, undo
from octavo.hugepages.apply import kept
from octavo.observation import Observation
from octavo.series import Series
from octavo.store.records import TrialRecord
from octavo.store.trial_json import decode, encode

# Other tests undo entries: one with a mutated path must never reach the host.
_HARMLESS = dict.fromkeys(undo.UNDO, f"{__name__}:harmless")

_JOURNAL = b"""\
{"number": 0, "kind": "owner", "pid": 4194303, "start_time": 5, "boot_id": "0cb8c4a5-8f6c-4b8f-8df5-2cf0a4a1c0de"}
{"number": 1, "kind": "directory", "path": "/nowhere/octavo/volumes/5b0e", "boot_id": "0cb8c4a5"}
{"number": 2, "kind": "value", "path": "/nowhere/a", "form": "plain", "device": "", "found": "60", "ours": [1, 2]}
{"number": 2, "kind": "value", "path": "/nowhere/a", "form": "plain", "device": "", "found": "60", "ours": null}
{"number": 3, "kind": "process", "role": "server", "pid": 4194303, "start_time": -1, "boot_id": "", "signal": 3}
{"number": 1, "kind": "done"}
"""
_HUGE_PAGES = (
    b'{"schema_version": 1, "applied": [{"id": "5b0e", "path": "/nowhere/nr_hugepages", "found": "0", "set": "9", '
    b'"surplus": 0, "ours": null, "boot_id": "0cb8c4a5"}]}'
)
_TRIAL = encode(
    "one",
    TrialRecord(
        "a", 1, 1, 1, 1, "ok", None, 1.0, 2.5, 3, (Observation("tps", 0.5, "1/s"),), {"work_mem": "4MB"},
        series=(Series.of("tps", "1/s", (0.5,), (1e300,)),), identity="0" * 32,
    ),
)  # fmt: skip


def harmless(entry: undo.Entry) -> undo.Undone | None:
    """Undoes nothing."""
    del entry


@contextmanager
def _home(place: Path) -> Generator[None, None, None]:
    with (
        patch.dict(undo.UNDO, _HARMLESS, clear=True),
        patch.object(journal, "find_by_environment", return_value=[]),
        patch.object(journal.time, "sleep"),
        patch.dict(os.environ, OCTAVO_HOME=str(place)),
    ):
        yield


def _restore(text: bytes, place: Path) -> object:
    directory = place / "journal"
    directory.mkdir(mode=0o700, exist_ok=True)
    file = directory / "5b0e.jsonl"
    file.write_bytes(text)
    file.chmod(0o600)
    with _home(place):
        return journal.restore()


def _kept(text: bytes, place: Path) -> object:
    (place / "huge_pages.json").write_bytes(text)
    with _home(place):
        entries = kept()
    if not all({"id", "path", "found", "set", "ours", "boot_id"} <= entry.keys() for entry in entries):
        raise HostError("an entry that nobody wrote")
    return entries


PARSERS = (
    Parser("journal", _restore, (_JOURNAL,)),
    Parser("applied huge pages", _kept, (_HUGE_PAGES,)),
    Parser("kept trial", lambda text, _: decode(text), (_TRIAL,)),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
