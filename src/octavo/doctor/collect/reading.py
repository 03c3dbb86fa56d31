"""Reading small files of the kernel into facts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from octavo.doctor.facts import Fact


def fact_of(name: str, path: Path, parse: Callable[[str], Any] = str) -> Fact:
    """The file's text as a fact, unknown with the reason if the file cannot be read or parsed."""
    try:
        text = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return Fact(name, absent=f"{path} does not exist")
    except OSError as error:
        return Fact(name, unknown=f"{path}: {error.strerror}")
    try:
        return Fact(name, parse(text), str(path))
    except ValueError:
        return Fact(name, unknown=f"{path} says {text[:40]!r}")


def kilobytes(text: str) -> int:
    """Converts a number of kB to bytes. Raises ValueError."""
    return int(text) * 1024
