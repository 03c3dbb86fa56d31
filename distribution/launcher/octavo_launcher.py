"""Runs Octavo out of the single file, which is a zip archive behind a line for the kernel.

Nothing is unpacked to a disk. What the file held at the start is copied into memory that cannot be changed any more
(memfd_create(2), sealed); modules, extension modules and their libraries come from there. So nobody who can write to
the file's directory, or to a temporary one, changes what runs.
"""

import fcntl
import importlib.machinery
import importlib.util
import json
import os
import sys
import zipimport
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

# linux/memfd.h, from 6.3 on: whether it may be run. An older kernel knows neither.
_DATA, _CODE = 0x8, 0x10
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_DESCRIPTORS = Path("/proc/self/fd")
_WAY_OUT = "the file is for Linux with glibc on the processors that its name says; elsewhere install the wheel"


def start(file: str) -> None:
    """Runs the command line that the single file holds. Exits with 3 when this system cannot load what it needs."""
    try:
        if not _DESCRIPTORS.is_dir():
            raise ImportError("/proc is not mounted")
        archive = zipimport.zipimporter(in_memory("octavo", Path(file).read_bytes(), _DATA))
        sys.path[0] = in_memory("octavo-modules", _modules(archive), _DATA)
        sys.meta_path.insert(0, Extensions(archive))
        from octavo.cli.app import main

        main()
    except ImportError as error:
        sys.stderr.write(f"octavo: {' '.join(str(error).split())}; {_WAY_OUT}\n")
        sys.exit(3)


def in_memory(name: str, content: bytes, kind: int = _CODE) -> str:
    """The path of a file in no directory that holds this for good. It stays open, for its path is its number.

    Raises ImportError where the kernel runs no code from memory.
    """
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        descriptor = os.memfd_create(name, flags | kind)
    except PermissionError as error:
        raise ImportError("this kernel runs no code from memory (vm.memfd_noexec is 2)") from error
    except OSError:
        descriptor = os.memfd_create(name, flags)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return str(_DESCRIPTORS / str(descriptor))


class Extensions:
    """Finds extension modules in the archive. What they link is loaded before: no directory is searched for it."""

    def __init__(self, archive: zipimport.zipimporter) -> None:
        self._archive = archive
        self._modules: dict[str, dict[str, list[str]]] = json.loads(archive.get_data("native/modules.json"))
        self._loaded: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """As importlib asks. None for a module that is not here, or not for this Python."""
        files = self._modules.get(name, {})
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            file = name.replace(".", "/") + suffix
            if file in files:
                for library in files[file]:
                    self._load(library)
                place = self._copy(file)
                loader = importlib.machinery.ExtensionFileLoader(name, place)
                return importlib.util.spec_from_file_location(name, place, loader=loader)
        return None

    def _load(self, library: str) -> None:
        import ctypes

        if library not in self._loaded:
            try:
                ctypes.CDLL(self._copy(library))
            except OSError as error:
                raise ImportError(f"{library}: {error}") from error
            self._loaded.add(library)

    def _copy(self, file: str) -> str:
        return in_memory(Path(file).name, self._archive.get_data(f"native/{file}"))


def _modules(archive: zipimport.zipimporter) -> bytes:
    """The modules compiled for this Python, else their source."""
    try:
        return archive.get_data(f"modules/{importlib.util.MAGIC_NUMBER.hex()}.zip")
    except OSError:
        return archive.get_data("modules/source.zip")
