"""The server of a tracing build owns the directory from which root records: files put there give it nothing of
root's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.errors import HostError
from octavo.host.children import Account
from octavo.trace.record import traced

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

_WAIT = "import os, sys; os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1])); print(flush=True); sys.stdin.read()"


@pytest.fixture
def data(shared: Path, account: Account) -> Path:
    """The data directory of a server."""
    os.chown(shared, account.uid, account.gid)
    return shared


@pytest.fixture
def postmaster(data: Path, account: Account) -> Iterator[int]:
    """A process of the account's in that directory."""
    command = [sys.executable, "-I", "-c", _WAIT, str(account.uid), str(account.gid)]
    child = subprocess.Popen(command, cwd=data, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    yield child.pid
    child.communicate()


def test_a_file_of_roots_that_was_moved_into_place_is_not_given_away(
    data: Path, postmaster: int, account: Account
) -> None:
    """The server may rename a file of root's in one of its directories, such as a key that only root can read."""
    directory = data / traced.DIRECTORY
    directory.mkdir()
    os.chown(directory, account.uid, account.gid)
    key = directory / traced.CONTROL
    key.write_text("a key that only root reads, of some length")
    key.chmod(0o600)
    elsewhere = os.open(key, os.O_RDONLY)
    try:
        with traced.recording(postmaster):
            pass
        assert os.fstat(elsewhere).st_uid == 0
        assert os.pread(elsewhere, 100, 0) == b"a key that only root reads, of some length"
    finally:
        os.close(elsewhere)


def test_a_directory_of_roots_that_was_moved_into_place_is_not_emptied(data: Path, postmaster: int) -> None:
    directory = data / traced.DIRECTORY
    directory.mkdir(mode=0o700)
    (directory / "backup").write_text("root's")
    with pytest.raises(HostError, match=r"not a directory of the server"), traced.recording(postmaster):
        pass
    assert (directory / "backup").read_text() == "root's"
    assert directory.stat().st_uid == 0


def test_nothing_is_made_where_a_server_has_gone(data: Path, account: Account, postmaster: int) -> None:
    """A server's own code chooses its working directory: root would make a directory there and give it away."""
    os.chown(data, 0, 0)
    with pytest.raises(HostError, match="is not its data directory"), traced.recording(postmaster):
        pass
    assert list(data.iterdir()) == []
    os.chown(data, account.uid, account.gid)


def test_a_recording_has_its_directory_and_leaves_none(data: Path, postmaster: int, account: Account) -> None:
    with traced.recording(postmaster):
        facts = (data / traced.DIRECTORY / traced.CONTROL).stat()
        assert (facts.st_uid, facts.st_size) == (account.uid, 24)
    assert list(data.iterdir()) == []
    (data / traced.DIRECTORY).mkdir(mode=0o700)  # of a recorder that was killed before changing its owner
    with traced.recording(postmaster):
        pass
    assert list(data.iterdir()) == []
