"""`script/package`: makes dist/ with the wheel and the single file, and prints their sizes and checksums."""

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path

from distribution.bytecode import interpreters
from distribution.single_file import single_file
from distribution.wheels import ROOT, build_wheel, locked_wheels

from octavo.errors import OctavoError

# psycopg has a wheel for each of these.
_PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def make(to: Path) -> list[Path]:
    """Makes both in the directory `to`. Returns their paths.

    Raises HostError when something cannot be built or fetched.
    """
    wheel = build_wheel()
    wheels = {wheel, *(one for python in _PYTHONS for one in locked_wheels(python))}
    ahead = interpreters(_PYTHONS)
    content = single_file(sorted(wheels), ahead.values(), int(os.environ["SOURCE_DATE_EPOCH"]))
    to.mkdir(parents=True, exist_ok=True)
    version = wheel.name.split("-")[1]
    file = to / f"octavo-{version}-linux-{platform.machine()}.pyz"
    file.write_bytes(content)
    file.chmod(0o755)
    shutil.copyfile(wheel, to / wheel.name)
    print(f"compiled ahead for Python {', '.join(ahead) or '(none is on PATH)'}; another one starts from source")
    return [to / wheel.name, file]


def main() -> None:
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    try:
        made = make(to)
    except OctavoError as error:
        sys.exit(f"package: {error}")
    for path in made:
        content = path.read_bytes()
        print(f"{hashlib.sha256(content).hexdigest()}  {len(content) / 1e6:.1f} MB  {path}")


if __name__ == "__main__":
    main()
