"""The wheels: our own, built here, and those of the packages that it needs, as they are locked."""

import shutil
import subprocess
import sys
from pathlib import Path

from octavo.errors import HostError

ROOT = Path(__file__).parents[1]
WORK = ROOT / "target" / "package"
"""What is kept between two times."""
FETCHED = WORK / "fetched"
_LOCK = ROOT / "requirements-core.txt"


def build_wheel() -> Path:
    """Builds our wheel below WORK, dated by SOURCE_DATE_EPOCH.

    Raises HostError when it does not build: the cause is on the terminal.
    """
    to = WORK / "built"
    shutil.rmtree(to, ignore_errors=True)
    maturin = Path(sys.executable).with_name("maturin")
    done = subprocess.run(
        [maturin, "build", "--quiet", "--release", "--locked", "--interpreter", sys.executable, "--out", to],
        cwd=ROOT,
        check=False,
    )
    if done.returncode != 0:
        raise HostError("the wheel did not build: the cause is above")
    (wheel,) = to.glob("*.whl")
    return wheel


def locked_wheels(python: str) -> list[Path]:
    """The locked wheels for this version of Python ("3.11"), kept below WORK: fetched once, checked each time.

    Raises HostError when they cannot be fetched.
    """
    to = WORK / f"wheels-{python}"
    FETCHED.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    what = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--python-version", python]
    for source in (["--no-index", "--find-links", FETCHED], []):
        shutil.rmtree(to, ignore_errors=True)
        done = subprocess.run(
            [*pip, *what, "--requirement", _LOCK, "--dest", to, *source], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return [Path(shutil.copy(wheel, FETCHED)) for wheel in sorted(to.glob("*.whl"))]
    cause = next(iter(done.stderr.strip().splitlines()[-1:]), "pip failed")
    raise HostError(f"cannot fetch the packages of {_LOCK.name} for Python {python}: {cause}; check the network")
