"""A private volume: an image file, a loop device on it, a filesystem, a mount. It exists for one trial.

The loop device reads and writes its image with direct I/O, so that the image is not cached a second time below the
filesystem (losetup(8), --direct-io). Nothing is discarded: a hole punched into the image would be read without the
device. A device's limits and queue settings outlive the image that was attached, so whoever changes them restores them
before detaching; a limit that was left behind nevertheless is removed from a newly attached device.
"""

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError
from octavo.home import make_directory, octavo_home
from octavo.host import block_limit, children, kernel_text, mounts
from octavo.host.journal import Journal
from octavo.host.kernel_text import shown
from octavo.host.loop_devices import devices_on, number_of
from octavo.host.undo import Entry, Undone
from octavo.text import one_line

_SYS = Path("/sys")
_PATIENCE_SECONDS = 30.0
# mkfs.xfs refuses less (xfsprogs since 5.19).
SMALLEST_BYTES = 300 * 1024**2


@dataclass(frozen=True, slots=True)
class Volume:
    """A mounted volume: its directory, its device's name (loop0) and number (7:0), its filesystem's type."""

    directory: Path
    image: Path
    device: str
    number: str
    filesystem: str

    @property
    def queue(self) -> Path:
        """The device's settings in /sys."""
        return _SYS / "block" / self.device / "queue"

    def as_dict(self) -> dict[str, Any]:
        """For a trial's facts, as the kernel has it."""
        return {
            "device": self.device,
            "bytes": self.image.stat().st_size,
            "filesystem": self.filesystem,
            "filesystem_block_bytes": os.statvfs(self.directory).f_bsize,
            "largest_request_bytes": int((self.queue / "max_sectors_kb").read_text()) * 1024,
        }


@contextmanager
def loop_volume(size: int, kind: str, block: int, journal: Journal) -> Generator[Volume, None, None]:
    """A volume of `size` bytes with a filesystem (ext4, xfs) of this block in bytes.

    Raises HostError when there is no room or right for it, or the image's filesystem has no direct I/O; OctavoError
    when the filesystem cannot be made or mounted.
    """
    # Without links: the kernel names images and mounts by their real paths.
    place = make_directory(octavo_home() / "volumes").resolve() / f"{journal.token[:8]}-{secrets.token_hex(4)}"
    image, directory = place / "image", place / "data"
    with ExitStack() as stack:
        stack.callback(journal.undo, journal.record("directory", path=str(place)))
        make_directory(directory)
        _allocate(image, size)
        stack.callback(journal.undo, journal.record("loop", image=str(image), **_identity(image)))
        device = Path(_run(journal, "losetup", "--find", "--show", "--direct-io=on", image).strip())
        facts = _SYS / "block" / device.name
        number = (facts / "dev").read_text().strip()
        block_limit.lift(number)
        if (facts / "loop/dio").read_text().strip() != "1":
            raise HostError(f"{place} has no direct I/O, so a volume there would be cached twice; set OCTAVO_HOME")
        _run(journal, *_mkfs(kind, block), device)
        entry = journal.record("mount", directory=str(directory), image=str(image), **_identity(image))
        stack.callback(journal.undo, entry)
        _run(journal, "mount", "-t", kind, "-o", "nosuid,nodev", device, directory)  # others write there
        yield Volume(directory, image, device.name, number, kind)


def cannot_make(kind: str) -> str | None:
    """Why this host cannot make such a volume, or None."""
    if os.geteuid() != 0:
        return "a loop device needs root"
    if not Path("/dev/loop-control").exists():
        return "this host has no loop devices"
    for program in ("losetup", "mount", "umount", f"mkfs.{kind}"):
        if shutil.which(program, path=children.PLAIN_PATH) is None:
            package = {"mkfs.xfs": "xfsprogs", "mkfs.ext4": "e2fsprogs"}.get(program, "util-linux and mount")
            return f"{program} is not installed (Debian: {package})"
    return None


def _mkfs(kind: str, block: int) -> list[str]:
    """Without discarding, without work that would go on in the background after the mount, and without the 5 % of the
    blocks that ext4 reserves for root (mkfs.ext4(8), -m)."""
    if kind == "ext4":
        extended = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
        return ["mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(block), "-E", extended]
    return ["mkfs.xfs", "-q", "-f", "-K", "-b", f"size={block}"]


def _allocate(image: Path, size: int) -> None:
    """Takes the whole room now, so that a trial does not find the disk full, nor its image scattered."""
    free = shutil.disk_usage(image.parent).free
    if size > free:
        raise HostError(
            f"a volume of {size // 1024**2}MB does not fit in {image.parent}; free some space or set OCTAVO_HOME"
        )
    with image.open("wb") as file:
        image.chmod(0o600)
        os.posix_fallocate(file.fileno(), 0, size)


def _run(journal: Journal, *arguments: str | Path) -> str:
    """Runs one of the system's programs to its end, and gives what it printed."""
    role = str(arguments[0])
    return children.check(children.run(arguments, journal, role=role), role).stdout


def undo_loop(entry: Entry) -> Undone | None:
    """Detaches whatever loop device is on our image; that is how a device is known whose number was not yet noted."""
    image = entry["image"]
    found = _attached(entry)
    if not found:
        return None
    again = "octavo host restore tries again"
    numbers = [number_of(device) for device in found]
    if any(mount.device in numbers or Path(mount.source).name in found for mount in mounts.mounts()):
        return Undone("failed", f"could not detach {', '.join(found)} from {image}: it is still mounted; {again}")
    for device in found:
        _ask("losetup", "--detach", f"/dev/{device}")
    if not _until(lambda: not _attached(entry)):
        return Undone("failed", f"could not detach {', '.join(found)} from {image}: it is in use; {again}")
    return Undone("put back", f"detached {', '.join(found)} from {image}")


def undo_mount(entry: Entry) -> Undone | None:
    """Unmounts what we mounted there; a mount of another device on top is somebody's, and left."""
    directory = Path(entry["directory"])
    mount = mounts.at(directory)
    if mount is None:
        return None
    if mount.device not in [number_of(device) for device in _attached(entry)]:
        over = f"{shown(mount.source)} is mounted over it; umount that, then octavo host restore"
        return Undone("failed", f"could not unmount our volume from {directory}: {over}")
    message = _ask("umount", str(directory))
    if mounts.at(directory) is not None:
        return Undone("failed", f"could not unmount {directory}: {message}; octavo host restore tries again")
    return Undone("put back", f"unmounted {directory}")


def _ask(*arguments: str) -> str:
    """Runs a program that undoes, whatever comes of it; in a session of its own, so that Ctrl-C does not end it."""
    finished = subprocess.run(arguments, check=False, capture_output=True, text=True, start_new_session=True)
    return one_line(finished.stderr)


def image_below(directory: Path) -> Path | None:
    """The image that the directory's filesystem is in, None where it is on no loop device."""
    device = directory.stat().st_dev
    try:
        number = f"{os.major(device)}:{os.minor(device)}"
        return Path(kernel_text.read(_SYS / "dev/block" / number / "loop/backing_file").removesuffix("\n"))
    except OSError:
        return None


def _attached(entry: Entry) -> list[str]:
    """The loop devices on the image of an entry: by its inode, as another file may have, or have had, its name."""
    return devices_on(entry["inode_device"], entry["inode"])


def _identity(image: Path) -> dict[str, int]:
    """What the image is known by in the journal, also when it has lost its name."""
    facts = image.stat()
    return {"inode_device": facts.st_dev, "inode": facts.st_ino}


def _until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
