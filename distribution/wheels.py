"""The wheels: our own, built here, and those of the packages that it needs, as they are locked."""

import shutil
import subprocess
import sys
from pathlib import Path

from octavo.errors import HostError

ROOT = Path(__file__).parents[1]
_LOCK = ROOT / "requirements-core.txt"


def build_wheel(work: Path, target: Path | None = None) -> Path:
    """Builds our wheel below `work`, dated by SOURCE_DATE_EPOCH; cargo keeps what it compiles in `target`.

    Raises HostError when it does not build: the cause is on the terminal.
    """
    to = work / "built"
    shutil.rmtree(to, ignore_errors=True)
    maturin = Path(sys.executable).with_name("maturin")
    where = [] if target is None else ["--target-dir", target]
    done = subprocess.run(
        [maturin, "build", "--quiet", "--release", "--locked", "--interpreter", sys.executable, "--out", to, *where],
        cwd=ROOT,
        check=False,
    )
    if done.returncode != 0:
        raise HostError("the wheel did not build: the cause is above")
    (wheel,) = to.glob("*.whl")
    return wheel


def locked_wheels(python: str, work: Path) -> list[Path]:
    """The locked wheels for this version of Python ("3.11"), kept below `work`: fetched once, checked each time.

    Raises HostError when they cannot be fetched.
    """
    kept, to = work / "fetched", work / f"wheels-{python}"
    kept.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    what = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--python-version", python]
    for source in (["--no-index", "--find-links", str(kept)], []):
        shutil.rmtree(to, ignore_errors=True)
        done = subprocess.run(
            [*pip, *what, "--requirement", _LOCK, "--dest", to, *source], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return [Path(shutil.copy(wheel, kept)) for wheel in sorted(to.glob("*.whl"))]
    cause = next(iter(done.stderr.strip().splitlines()[-1:]), "pip failed")
    raise HostError(f"cannot fetch the packages of {_LOCK.name} for Python {python}: {cause}; check the network")
