"""The undo function of each kind of journal entry, as a table: a new kind is a line here and a function next to the
code that makes the entry.

An undo function takes the entry and returns what it did, or None if there was nothing to do. `_check` first validates
the paths that an entry names, for all kinds.
"""

import os
import re
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from octavo.errors import OctavoError
from octavo.host import mounts
from octavo.host.process import ProcessIdentity, end, is_alive
from octavo.host.removal import remove
from octavo.host.trusted_paths import NotOursError, kernel_path, opened_parent, state_path

Entry = dict[str, Any]

# Undoing knows only kinds, so that a journal written by one version can be read by the next.
UNDO = {
    "process": "octavo.host.undo:undo_process",
    "directory": "octavo.host.undo:undo_directory",
    "children": "octavo.host.child_group:undo",
    "cgroup": "octavo.host.cgroup:undo_group",
    "controller": "octavo.host.cgroup:undo_controller",
    "value": "octavo.host.kernel_value:undo_value",
    "counterparts": "octavo.host.kernel_value:undo_counterparts",
    "loop": "octavo.host.loop_volume:undo_loop",
    "mount": "octavo.host.loop_volume:undo_mount",
    "huge_pages": "octavo.hugepages.apply:undo_interrupted",
    "swap": "octavo.knobs.zram_swap:undo_swap",
    "zram": "octavo.knobs.zram_swap:undo_zram",
    "shared_memory": "octavo.postgres.shared_memory_left:undo",
    "tracing_instance": "octavo.iotop.instance:undo_instance",
}

_LONGEST_SHOWN = 200


def _zram(name: object) -> None:
    if name is not None and (not isinstance(name, str) or not re.fullmatch(r"zram[0-9]+", name)):
        raise NotOursError(f"{name!r} is not a zram device")


# What names a place in an entry, and what says whether an undo may act there.
_PLACES: dict[str, dict[str, Callable[[object], object]]] = {
    "directory": {"path": state_path},
    "children": {"path": kernel_path},
    "cgroup": {"path": kernel_path},
    "controller": {"path": kernel_path},
    "value": {"path": kernel_path},
    "counterparts": {"ratio": kernel_path, "amount": kernel_path},
    "loop": {"image": state_path},
    "mount": {"directory": state_path, "image": state_path},
    "huge_pages": {"path": kernel_path},
    "swap": {"device": _zram},
    "zram": {"device": _zram},
}


@dataclass(frozen=True, slots=True)
class Undone:
    """Of an entry: `put back`, `left` as somebody else has made it since, or `failed`, to be tried again."""

    what: Literal["put back", "left", "failed"]
    line: str

    def __str__(self) -> str:
        """The line, as commands print it."""
        return self.line


def undo(entry: Entry) -> Undone | None:
    """Undoes an entry. Never raises for what may go wrong: that is a `failed`."""
    kind = str(entry["kind"])
    if kind not in UNDO:
        return Undone("failed", f"cannot undo {kind!r}: a newer Octavo wrote it; use that one")
    module, _, name = UNDO[kind].partition(":")
    function: Callable[[Entry], Undone | None] = getattr(import_module(module), name)
    try:
        _check(kind, entry)
        return function(entry)
    except NotOursError as error:
        return Undone("left", f"left a journal entry {kind!r}: {error}")
    except (LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        return Undone("left", f"left a journal entry {kind!r}: it is damaged ({why}): {cut(entry)}")
    except (OSError, OctavoError, ValueError, ArithmeticError) as error:
        return Undone("failed", f"could not undo {kind!r}: {error}; octavo host restore tries again")


def cut(content: object) -> str:
    """An entry of a journal, shortened to a part of a line."""
    text = repr(content)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _check(kind: str, entry: Entry) -> None:
    """Raises NotOursError when the entry names a place where no undo acts."""
    for name, check in _PLACES.get(kind, {}).items():
        check(entry[name])
    for moved in entry.get("moves") or ():
        kernel_path(moved["path"])


def thaw(entries: Sequence[Entry]) -> None:
    """Thaws the children in these groups, so that they can be ended by a signal.

    Damaged entries are skipped here; `undo` reports them.
    """
    child_group = import_module("octavo.host.child_group")
    for entry in entries:
        with suppress(NotOursError, KeyError, TypeError, OSError):
            _check("children", entry)
            child_group.thaw(Path(entry["path"]))


def undo_process(entry: Entry) -> Undone | None:
    """Ends the very process that was started."""
    identity = ProcessIdentity(entry["pid"], entry["start_time"], entry["boot_id"])
    if not is_alive(identity):
        return None
    end(identity, signal.Signals(entry["signal"]))
    what = f"{entry['role']} (pid {identity.pid}), left by a command that was killed"
    return Undone("failed", f"could not end {what}") if is_alive(identity) else Undone("put back", f"ended {what}")


def undo_directory(entry: Entry) -> Undone | None:
    """Removes a directory of ours, never through a mount, which may belong to somebody else."""
    path = state_path(entry["path"])
    with opened_parent(path) as parent:
        if parent is None or not os.path.lexists(parent[1]):
            return None
        descriptor, real = parent
        if inside := mounts.below(real):
            return Undone("failed", f"could not remove {path}: {inside[0].target} is mounted in it; umount it")
        if not remove(Path(f"/proc/{os.getpid()}/fd/{descriptor}") / real.name):
            return Undone("failed", f"could not remove {path} whole; octavo host restore tries again")
    return Undone("put back", f"removed {path}")
