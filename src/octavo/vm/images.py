"""The images that are kept: a directory each below `vm` in the state directory, which appears whole or not at all."""

import json
import os
import re
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError, UsageError
from octavo.home import make_directory, octavo_home, sync_directory, write_durably
from octavo.host import trees
from octavo.host.journal import Journal

MANIFEST = "manifest.json"
FILES = ("kernel", "initrd", "root")
_NAME = re.compile(r"vm-[A-Za-z0-9][A-Za-z0-9.+_-]{0,200}")


@dataclass(frozen=True, slots=True)
class Image:
    """A machine's kernel, first filesystem and system disk. `last_used` is when a machine was started last (epoch)."""

    name: str
    path: Path
    manifest: dict[str, Any]
    last_used: float

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return trees.allocated_bytes(self.path)


def directory() -> Path:
    """Where images live."""
    return octavo_home() / "vm"


def is_name(text: str) -> bool:
    """Whether an image can have this name; no dataset's begins so."""
    return _NAME.fullmatch(text) is not None


def read(name: str) -> Image | None:
    """The image of this name, if it is finished."""
    path = directory() / name
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        return Image(name, path, manifest, (path / MANIFEST).stat().st_mtime)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def list_images() -> list[Image]:
    """The finished images, by name."""
    names = sorted(path.parent.name for path in directory().glob(f"vm-*/{MANIFEST}"))
    return [image for name in names if (image := read(name)) is not None]


def by_name(name: str) -> Image:
    """The image of this name. Raises UsageError when there is none."""
    image = read(name) if is_name(name) else None
    if image is None:
        raise UsageError(f"there is no image {name}; octavo vm list shows their names")
    return image


def newest(machine: str, page: str) -> Image:
    """The image with this kernel page that was made last. Raises HostError when there is none yet."""
    found = [
        image
        for image in list_images()
        if (image.manifest["machine"], image.manifest["kernel_page"]) == (machine, page)
    ]
    if not found:
        asked = "" if machine == "aarch64" else f" --machine {machine}"
        raise HostError(
            f"no image has a kernel page of {page} yet: octavo vm build --kernel-page {page}{asked} makes one"
        )
    return max(found, key=lambda image: str(image.manifest["made"]))


def note_use(image: Image) -> None:
    """Remembers that the image is used now."""
    with suppress(OSError):
        os.utime(image.path / MANIFEST)


@contextmanager
def unpublished(name: str, journal: Journal) -> Generator[Path, None, None]:
    """A hidden directory of ours to make an image in, gone at the end unless it was published."""
    work = make_directory(directory()) / f".{name}-{journal.token[:8]}"
    entry = journal.record("directory", path=str(work))
    try:
        work.mkdir(mode=0o711)
        yield work
    finally:
        if trees.remove(work):
            journal.done(entry)


def publish(work: Path, name: str, manifest: Mapping[str, Any]) -> Image:
    """Puts what is complete into its place, and returns it."""
    write_durably(work / MANIFEST, json.dumps(manifest, indent=1))
    trees.sync(work)
    place = directory() / name
    trees.remove(place)  # one whose manifest cannot be read
    work.rename(place)
    sync_directory(place.parent)
    return by_name(name)


def remove(image: Image, journal: Journal) -> int:
    """Removes an image and returns the bytes that this freed. A machine that runs from it keeps its open files."""
    size = image.size
    hidden = image.path.with_name(f".removed-{image.name}-{journal.token[:8]}")
    entry = journal.record("directory", path=str(hidden))
    image.path.rename(hidden)
    if not trees.remove(hidden):
        raise HostError(f"could not remove {hidden} whole; octavo host restore tries again")
    journal.done(entry)
    return size


def check_room(needed: int) -> None:
    """Raises HostError when the disk has no room for an image of so many bytes."""
    place = make_directory(directory())
    if (free := shutil.disk_usage(place).free) < needed:
        raise HostError(
            f"{place} has {free // 1024**2} MB free and an image needs about {needed // 1024**2} MB; "
            "octavo cache rm removes datasets and images"
        )
