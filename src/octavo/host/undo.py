"""What undoes each kind of journal entry: a table, so that a new kind is a line here and a function beside its maker.

An undo function gets the entry and says what became of it, or None when there was nothing left to do.
"""

import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from octavo.errors import OctavoError
from octavo.host import mounts
from octavo.host.process import ProcessIdentity, end, is_alive

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
    "tracing_instance": "octavo.iotop.instance:undo_instance",
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
        return Undone("failed", f"do not know how to undo {kind!r}; a newer Octavo wrote it, which can")
    module, _, name = UNDO[kind].partition(":")
    function: Callable[[Entry], Undone | None] = getattr(import_module(module), name)
    try:
        return function(entry)
    except (OSError, OctavoError, KeyError, ValueError) as error:
        return Undone("failed", f"could not undo {kind!r}: {error}; octavo host restore tries again")


def thaw(entries: Sequence[Entry]) -> None:
    """Lets the children in these groups go on, so that they can be ended by a signal."""
    child_group = import_module("octavo.host.child_group")
    for entry in entries:
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
    """Removes a directory of ours, never through a mount: what is mounted there may be somebody's."""
    path = Path(entry["path"])
    if not path.exists():
        return None
    if inside := mounts.below(path.resolve()):
        return Undone("failed", f"could not remove {path}: {inside[0].target} is mounted in it; umount it")
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        return Undone("failed", f"could not remove {path} whole; octavo host restore tries again")
    return Undone("put back", f"removed {path}")
