"""Archives on a Python whose tarfile has no filters (added in 3.11.4), such as 3.11.2, Debian 12's own."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_ASK = "import json, sys, tarfile; print(json.dumps([sys.version_info[:2], hasattr(tarfile, 'data_filter')]))"


def _without_filters() -> str:
    """A system Python of this one's version, for which its libraries are built; skips the test if there is none."""
    ours = sys.version_info[:2]
    for name in ("python3", f"python{ours[0]}.{ours[1]}"):
        path = Path("/usr/bin") / name
        if path.exists():
            said = subprocess.run([path, "-I", "-c", _ASK], capture_output=True, text=True, check=True).stdout
            if json.loads(said) == [list(ours), False]:
                return str(path)
    pytest.skip(f"no Python {ours[0]}.{ours[1]} without tarfile's filters in /usr/bin")


def test_everything_about_archives_holds_there_too() -> None:
    path = os.pathsep.join([str(_ROOT), str(_ROOT / "src"), sysconfig.get_path("purelib")])
    finished = subprocess.run(
        [_without_filters(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/security/test_supply.py"],
        cwd=_ROOT, env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert " passed" in finished.stdout
