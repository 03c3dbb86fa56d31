"""One file that runs with the distribution's Python: modules, extension modules, and the libraries that those link."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from distribution.archive import unzipped, zipped
from distribution.bytecode import compiled
from distribution.libraries import load_order, needed

# The kernel passes one argument: -I and -S together (see the launcher).
_FIRST_LINE = b"#!/usr/bin/python3 -IS\n"
_LAUNCHER = Path(__file__).with_name("launcher")
# Wheels that rich needs for Markdown and for colouring source code, which Octavo does not print.
_LEFT_OUT = ("markdown_it_py", "mdurl", "pygments")
# What of a wheel's own directory is not about installing it.
_LICENCES = ("licen", "copying", "notice", "sboms")


@dataclass(frozen=True, slots=True)
class _Contents:
    """What the wheels hold, by name."""

    modules: dict[str, bytes] = field(default_factory=dict[str, bytes])
    extensions: dict[str, bytes] = field(default_factory=dict[str, bytes])
    libraries: dict[str, bytes] = field(default_factory=dict[str, bytes])
    licences: dict[str, bytes] = field(default_factory=dict[str, bytes])


def single_file(wheels: Iterable[Path], pythons: Iterable[Path], epoch: int) -> bytes:
    """The file: all that these wheels hold, compiled for these Pythons, dated `epoch` (seconds)."""
    contents = _contents(wheels)
    modules = {"modules/source.zip": zipped(contents.modules, epoch)}
    for python in pythons:
        magic, bytecode = compiled(contents.modules, python)
        modules[f"modules/{magic}.zip"] = zipped(bytecode, epoch)
    native = {f"native/{name}": content for name, content in (contents.extensions | contents.libraries).items()}
    files = {
        **{path.name: path.read_bytes() for path in _LAUNCHER.glob("*.py")},
        "native/modules.json": json.dumps(_links(contents), indent=1, sort_keys=True).encode(),
        **modules,
        **native,
        **contents.licences,
    }
    return _FIRST_LINE + zipped(files, epoch, stored=frozenset(modules))


def _contents(wheels: Iterable[Path]) -> _Contents:
    contents = _Contents()
    for wheel in wheels:
        if wheel.name.partition("-")[0] in _LEFT_OUT:
            continue
        for name, content in unzipped(wheel.read_bytes()).items():
            top, _, below = name.partition("/")
            if top.endswith(".dist-info"):
                if below.lower().startswith(_LICENCES):
                    contents.licences[f"licences/{top.removesuffix('.dist-info')}/{below}"] = content
                elif below == "METADATA":  # where psycopg looks up its version
                    contents.modules[name] = content
            elif top.endswith(".libs"):
                contents.libraries[Path(name).name] = content
            elif name.endswith(".so"):
                contents.extensions[name] = content
            elif not name.endswith(".pyi"):
                contents.modules[name] = content
    return contents


def _links(contents: _Contents) -> dict[str, dict[str, list[str]]]:
    """The extension modules by name, the files of each, and the libraries that have to be loaded before."""
    libraries = {name: needed(content) for name, content in contents.libraries.items()}
    found: dict[str, dict[str, list[str]]] = {}
    for name, content in contents.extensions.items():
        module = name.partition(".")[0].replace("/", ".")
        found.setdefault(module, {})[name] = load_order(needed(content), libraries)
    return found
