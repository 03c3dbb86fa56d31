"""The identity of an Octavo installation: the digest of its package's files."""

import functools
import hashlib
import platform
from importlib import resources
from importlib.resources.abc import Traversable

from octavo import __version__


@functools.cache
def package_digest() -> str:
    """The sha256 of every file of the package, and of Python's version.

    The extension module is left out: it is a different file on each architecture, built from the same source.
    """
    digest = hashlib.sha256(".".join(platform.python_version_tuple()[:2]).encode())
    for name, file in sorted(_files(resources.files("octavo"), "")):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """The versions that `octavo fleet check` compares: all of them must be equal on all hosts."""
    from importlib.metadata import version

    return {
        "octavo": __version__,
        "package": package_digest(),
        "python": platform.python_version(),
        "distributed": version("distributed"),
    }


def _files(place: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for one in place.iterdir():
        name = f"{prefix}{one.name}"
        if one.is_dir():
            if one.name != "__pycache__":
                found += _files(one, f"{name}/")
        elif not one.name.endswith((".so", ".pyc")):
            found.append((name, one))
    return found
