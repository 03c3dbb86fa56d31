"""bpftrace reads a server's program as root: one that others can change is refused, and it cannot be replaced
meanwhile."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.errors import HostError
from octavo.host.children import Account
from octavo.trace.record.probes import executable

pytestmark = needs_root


@pytest.fixture
def postgres(shared: Path, account: Account) -> Path:
    """A program with probes, as far as can be seen, in a directory of the account's."""
    directory = shared / "bin"
    directory.mkdir()
    program = directory / "postgres"
    shutil.copy("/bin/sleep", program)
    with program.open("ab") as file:
        file.write(b"buffer__read__done")
    os.chown(directory, account.uid, account.gid)
    return program


@pytest.fixture
def started(postgres: Path, account: Account) -> Iterator[Callable[[], int]]:
    """Starts the program as the account."""
    children: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        children.append(subprocess.Popen([postgres, "600"], user=account.uid, group=account.gid, extra_groups=[]))
        return children[-1].pid

    yield start
    for child in children:
        child.kill()
        child.wait()


def test_a_program_that_others_can_change_is_refused(
    postgres: Path, started: Callable[[], int], account: Account
) -> None:
    server = started()
    os.chown(postgres, account.uid, account.gid)
    with pytest.raises(HostError, match=f"belongs to user {account.uid}"), executable(server):
        pass
    os.chown(postgres, 0, 0)
    postgres.chmod(0o757)
    with pytest.raises(HostError, match="is writable by others"), executable(server):
        pass


def test_what_was_checked_is_what_is_read(postgres: Path, started: Callable[[], int]) -> None:
    """The owner of the program's directory can put another file in its place: a library that others run, for
    example."""
    with executable(started()) as path:
        checked = path.read_bytes()
        postgres.rename(postgres.with_name("moved"))
        postgres.symlink_to("/bin/sh")
        assert path.read_bytes() == checked
        assert path.samefile(postgres.with_name("moved"))
