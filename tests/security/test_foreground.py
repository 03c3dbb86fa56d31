"""A child that has root's terminal, such as psql of `octavo shell`, is confined like every other one."""

import errno
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.errors import HostError
from octavo.host import child_group, confine, mode_filter
from octavo.host.children import server_account
from octavo.host.journal import Journal
from octavo.host.process import identify
from octavo.postgres import scratch
from octavo.postgres.builds.cache import Build
from octavo.postgres.cluster import Server

pytestmark = needs_root

# Starts a program in a new terminal session: like a shell of root's, with octavo as a foreground job.
_OCTAVO = """
import os, sys
from octavo.host import foreground
from octavo.host.children import server_account
from octavo.host.journal import Journal
with Journal() as journal:
    code = foreground.run_in_foreground(
        ["/usr/bin/python3", "-I", "-c", *sys.argv[1:]], journal, role="test", environment={"PATH": "/usr/bin:/bin"},
        account=server_account(),
    )
    assert not journal.groups
sys.exit(code)
"""

_CHILD = """
import fcntl, os, sys, termios
os.chdir(sys.argv[1])
def tried(change):
    try: change()
    except OSError as error: return error.errno
    return 0
open("file", "w").close()
typed = tried(lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"))
mode = tried(lambda: os.chmod("file", 0o4755))
has_terminal = os.tcgetpgrp(0) == os.getpgrp() and os.isatty(1)
if (pid := os.fork()) == 0:
    os.setsid()
    os.execve("/bin/sleep", ["sleep", "600"], {})
open("found", "w").write(f"{os.getuid()} {int(has_terminal)} {mode} {typed} {pid}")
sys.exit(7)
"""


@pytest.fixture
def place(shared: Path) -> Path:
    try:
        account = server_account()
    except HostError as error:
        pytest.skip(str(error))
    os.chown(shared, account.uid, account.gid)
    return shared


def test_it_has_the_terminal_and_no_more(home: Path, place: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        finished = subprocess.run(
            ["/usr/bin/setsid", "--ctty", "--wait", sys.executable, "-c", _OCTAVO, _CHILD, place],
            stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(theirs)
        os.close(ours)
    assert finished.returncode == 7, finished.stderr
    uid, has_terminal, mode, typed, left = map(int, (place / "found").read_text().split())
    assert uid == server_account().uid
    assert has_terminal
    if mode_filter.is_available():
        assert mode == typed == errno.EPERM
    survivor = identify(left)
    if survivor is not None:
        os.kill(left, signal.SIGKILL)
    assert survivor is None or child_group.hierarchy() is None


def test_no_program_of_a_build_is_run_as_root(place: Path) -> None:
    """Programs that run before the switch to the account are named by their path: PATH begins with the build's
    programs."""
    rights = confine.without_privileges(1, 1, network=False)
    tools = [word for word in rights if Path(word).name in ("unshare", "setpriv")]
    assert tools
    assert all(Path(tool).is_absolute() for tool in tools)


def test_roots_psql_has_none_of_roots_environment(home: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SECRET_TOKEN": "hunter2", "LD_PRELOAD": "", "PGHOST": "elsewhere", "TERM": "vt100"}.items():
        monkeypatch.setenv(name, value)
    (place / "bin").mkdir()
    psql = place / "bin" / "psql"
    psql.write_text(f"#!/bin/sh\nenv > {place}/environment; id -u > {place}/user\n")
    psql.chmod(0o755)
    build = Build("18", place, {})
    with Journal() as journal, subprocess.Popen(["/bin/true"], text=True) as process:
        server = Server(build, place, place / "log", place, server_account(), journal, process, [])
        assert scratch.run_psql(server, []) == 0
    found = dict(line.split("=", 1) for line in (place / "environment").read_text().splitlines())
    assert (place / "user").read_text().strip() == str(server_account().uid)
    assert not {"SECRET_TOKEN", "LD_PRELOAD"} & found.keys()
    assert (found["TERM"], found["HOME"], found["PSQL_HISTORY"]) == ("vt100", "/nonexistent", "/dev/null")
    assert found["PGHOST"] != "elsewhere"
