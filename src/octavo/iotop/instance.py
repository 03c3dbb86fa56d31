"""A tracing instance of our own: a ring buffer with its events, beside whatever else is traced on this host.

Source: kernel Documentation/trace/ftrace.rst, "Instances". An instance outlives its creator, so it is journaled.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from octavo.host.journal import Journal
from octavo.host.undo import Undone
from octavo.instruments import system_calls

_PREFIX = "octavo-"


@contextmanager
def instance(journal: Journal) -> Generator[Path, None, None]:
    """Its directory, gone at the end. Raises OSError without root or tracefs."""
    with system_calls.tracefs() as directory:
        name = _PREFIX + journal.token[:8]
        path = directory / "instances" / name
        number = journal.record("tracing_instance", name=name)
        try:
            path.mkdir()
            yield path
        finally:
            journal.undo(number)


def undo_instance(entry: dict[str, Any]) -> Undone | None:
    """Removes an instance by its name, its events and its buffer with it."""
    name = str(entry["name"])
    if not name.startswith(_PREFIX) or "/" in name:
        raise ValueError(f"{name!r} is not a tracing instance of Octavo")
    with system_calls.tracefs() as directory:
        path = directory / "instances" / name
        if not path.exists():
            return None
        path.rmdir()
    return Undone("put back", f"removed the tracing instance {name}, left by a command that was killed")
