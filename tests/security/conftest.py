"""Attacks by other users of this host, tried with their rights: in processes that have become nobody."""

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo.host import trees

AsNobody = Callable[..., "subprocess.Popen[str]"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")

# Its imports are done while it can still read root's own Python.
_BECOME = """
import ctypes, fcntl, os, socket, sys
import octavo.errors, octavo.home
uid = int(sys.argv.pop(1))
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
exec(sys.argv.pop(1))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that everybody may enter, unlike pytest's own; removed at the end."""
    with tempfile.TemporaryDirectory(prefix="octavo-test-", dir="/var/tmp") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def own_home(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An OCTAVO_HOME that does not exist yet."""
    monkeypatch.setenv("OCTAVO_HOME", str(shared / "home"))
    return shared / "home"


@pytest.fixture
def place(home: Path) -> Iterator[Path]:
    """A directory of ours that the account may enter."""
    path = home / "place"
    path.mkdir(mode=0o755)
    yield path
    assert trees.remove(path)


@pytest.fixture
def as_nobody() -> Iterator[AsNobody]:
    """Starts Python code as nobody, with pipes; processes that still run at the end are killed."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: str | Path, **environment: str) -> "subprocess.Popen[str]":
        uid = pwd.getpwnam("nobody").pw_uid
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _BECOME, str(uid), code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=environment,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()
