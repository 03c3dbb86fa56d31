"""Swap on a compressed device in memory: zram.

Source: kernel Documentation/admin-guide/blockdev/zram.rst: reading /sys/class/zram-control/hot_add creates a device and
returns its number. A device that already exists belongs to somebody else and is not used. A memory-limited server swaps
only if its group allows it, which Octavo sets together with this knob.
"""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from octavo.factor import Factor, size
from octavo.host import children
from octavo.host.journal import Journal
from octavo.host.kernel_text import lines, words
from octavo.host.process import boot_id
from octavo.host.undo import Entry, Undone
from octavo.knobs.base import Achieved, KnobTarget, not_writable
from octavo.text import one_line
from octavo.units import format_size, parse_size

_CONTROL = Path("/sys/class/zram-control")
_BLOCK = Path("/sys/block")
# Above any other swap (swapon(8): the highest priority is used first).
_PRIORITY = "32767"


class ZramSwap:
    """A device of this size before compression."""

    factor = Factor("zram_swap", "run", "size of the compressed swap in memory", "none", size("1MB", "1TB", "none"))

    def cannot(self, level: str, place: KnobTarget) -> str | None:
        """It needs the kernel's zram and the programs."""
        del level, place
        for program in ("mkswap", "swapon", "swapoff"):
            if shutil.which(program, path=children.PLAIN_PATH) is None:
                return f"{program} is not installed (Debian: mount)"
        if not _CONTROL.exists():
            return "this kernel has no zram; if it is a module, load it with modprobe zram"
        return not_writable(_CONTROL / "hot_remove")

    @contextmanager
    def applied(self, level: str, journal: Journal, place: KnobTarget) -> Generator[Achieved, None, None]:
        """Creates a device with swap on it, and removes it at the end."""
        found = swaps(place.proc)
        with ExitStack() as stack:
            size = device_bytes(level)
            there = sorted(path.name for path in _BLOCK.glob("zram*"))
            number = journal.record("zram", there=there, device=None, bytes=size, boot_id=boot_id())
            stack.callback(journal.undo, number)
            device = f"zram{(_CONTROL / 'hot_add').read_text().strip()}"
            journal.amend(number, device=device)
            (_BLOCK / device / "disksize").write_text(str(size))
            _run(journal, "mkswap", f"/dev/{device}")
            entry = journal.record("swap", device=device, bytes=size, boot_id=boot_id())
            stack.callback(journal.undo, entry)
            _run(journal, "swapon", "--priority", _PRIORITY, f"/dev/{device}")
            now = swaps(place.proc)
            yield Achieved(level, format_size(now.get(f"/dev/{device}", 0)), " ".join(found) or "none")


def device_bytes(level: str, page: int = os.sysconf("SC_PAGE_SIZE")) -> int:
    """The size that the device reports, by which it is recognised when it is removed: the kernel rounds up to whole
    memory pages (drivers/block/zram/zram_drv.c, disksize_store).

    >>> device_bytes("1025kB", 4096) // 1024, device_bytes("2MB", 65536) // 1024
    (1028, 2048)
    """
    return -(-parse_size(level) // page) * page


def swaps(proc: Path = Path("/proc")) -> dict[str, int]:
    """The bytes of every swap area in use, by its file (/proc/swaps)."""
    areas = map(words, lines(proc / "swaps")[1:])
    return {area[0]: int(area[2]) * 1024 for area in areas if len(area) > 2}


def undo_swap(entry: Entry) -> Undone | None:
    """Disables the swap area: its contents return to memory."""
    device = f"/dev/{entry['device']}"
    if entry["boot_id"] != boot_id() or device not in swaps():
        return None
    if _bytes(entry["device"]) != entry["bytes"]:
        return Undone("left", f"left swap on {device}: it is no longer the one that Octavo set up")
    finished = subprocess.run(["swapoff", device], check=False, capture_output=True, text=True, start_new_session=True)
    if device in swaps():
        return Undone("failed", f"could not disable swap on {device}: {one_line(finished.stderr)}; will be tried again")
    return Undone("put back", f"disabled swap on {device}")


def undo_zram(entry: Entry) -> Undone | None:
    """Removes the device. One whose number was not yet recorded is recognised as a new device without a size."""
    if entry["boot_id"] != boot_id():
        return None
    if entry["device"] is not None:
        return _remove(entry["device"], entry["bytes"])
    unnoted = [path.name for path in _BLOCK.glob("zram*") if path.name not in entry["there"] and not _bytes(path.name)]
    texts = [_remove(name, 0) for name in unnoted]
    return next((one for one in texts if one is not None), None)


def _remove(device: str, expected: int) -> Undone | None:
    if not (_BLOCK / device).exists():
        return None
    if _bytes(device) not in (0, expected):
        return Undone("left", f"left {device}: it is no longer the one that Octavo set up")
    (_CONTROL / "hot_remove").write_text(device.removeprefix("zram"))
    return Undone("put back", f"removed {device}")


def _bytes(device: str) -> int:
    return int((_BLOCK / device / "disksize").read_text())


def _run(journal: Journal, *arguments: str) -> None:
    children.check(children.run(arguments, journal, role=arguments[0]), arguments[0])


KNOB = ZramSwap()
