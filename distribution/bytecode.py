"""Modules compiled ahead, for each Python that is here: starting from source takes twice to four times as long."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

# Compiles a tree in place, in the order of names; the bytecode knows no path but the module's own, and no time.
_PROGRAM = """
import importlib.util, pathlib, py_compile, sys
tree = pathlib.Path(sys.argv[1])
for file in sorted(tree.rglob("*.py")):
    py_compile.compile(str(file), str(file) + "c", str(file.relative_to(tree)), doraise=True, optimize=0,
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    file.unlink()
print(importlib.util.MAGIC_NUMBER.hex())
"""


def interpreters(versions: Iterable[str]) -> dict[str, Path]:
    """Of these versions of Python ("3.11"), those that are on PATH and work."""
    found: dict[str, Path] = {}
    for version in versions:
        place = shutil.which(f"python{version}")
        if place and subprocess.run([place, "-IS", "-c", ""], capture_output=True, check=False).returncode == 0:
            found[version] = Path(place)
    return found


def compiled(modules: Mapping[str, bytes], python: Path) -> tuple[str, dict[str, bytes]]:
    """The magic number (hexadecimal) of this Python's bytecode, and the modules in it; what is no module stays."""
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        for name, content in modules.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(content)
        done = subprocess.run(
            [python, "-IS", "-c", _PROGRAM, tree], capture_output=True, check=True, text=True, env={"LC_ALL": "C.UTF-8"}
        )
        files = {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    return done.stdout.strip(), files
