"""The stored images: a directory each below `vm` in the state directory, which appears atomically."""

import re
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError, UsageError
from octavo.home import make_directory, octavo_home
from octavo.host import published, trees
from octavo.host.journal import Journal

FILES = ("kernel", "initrd", "root")
_WORDS = ("machine", "kernel_page", "kernel", "postgres", "made")
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
    found = published.read(path)
    return None if found is None or not is_manifest(found[0]) else Image(name, path, *found)


def is_manifest(found: Mapping[str, Any]) -> bool:
    """Whether it has the keys that every image needs."""
    return all(isinstance(found.get(word), str) for word in _WORDS)


def list_images() -> list[Image]:
    """The finished images, by name."""
    return [image for name in published.names(directory(), "vm-*") if (image := read(name)) is not None]


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


@contextmanager
def unpublished(name: str, journal: Journal) -> Generator[Path, None, None]:
    """A hidden directory of ours to make an image in, gone at the end unless it was published."""
    with published.unpublished(directory(), name, journal) as work:
        work.mkdir(mode=0o711)
        yield work


def publish(work: Path, name: str, manifest: Mapping[str, Any]) -> Image:
    """Moves a complete image to its place, unless another command has made the same one meanwhile, from which a machine
    may be starting; returns the one that is there."""
    trees.sync(work)
    if read(name) is None:
        published.publish(work, directory() / name, manifest)
    return by_name(name)


def remove(image: Image, journal: Journal) -> int:
    """Removes an image, unless it is gone already, and returns the bytes that this freed. A machine that runs from it
    keeps its open files."""
    if read(image.name) is None:
        return 0
    size = image.size
    published.remove(image.path, journal)
    return size


def check_room(needed: int) -> None:
    """Raises HostError when the disk has no room for an image of so many bytes."""
    place = make_directory(directory())
    if (free := shutil.disk_usage(place).free) < needed:
        raise HostError(
            f"{place} has {free // 1024**2} MB free and an image needs about {needed // 1024**2} MB; "
            "octavo cache rm removes datasets and images"
        )
