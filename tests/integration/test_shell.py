"""`octavo shell` as people use it: scripted, on a terminal, interrupted and killed, with nothing left afterwards."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from octavo.host.journal import recover
from octavo.postgres.builds.cache import Build

PATIENCE_SECONDS = 300.0


@pytest.fixture
def shell(build: Build, home: Path) -> Iterator[list[str]]:
    """The command that starts a shell on the build; afterwards nothing of it is left, whatever happened."""
    yield [sys.executable, "-m", "octavo", "shell", "--data-block", build.manifest["data_block"]]
    assert list((home / "scratch").glob("*")) == []
    assert list((home / "journal").glob("*")) == []
    assert running_below(home) == []


def running_below(home: Path) -> list[str]:
    """The command lines of processes that contain the tests' state directory, including those of servers."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"{home}/scratch" in line:
            found.append(line)
    return found


def socket_directory(told: str) -> Path:
    """The directory of the server's socket, from the shell's first line."""
    (place,) = re.findall(r"host=(\S+)", told)
    return Path(place)


def run(command: Sequence[str], typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=typed, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
def test_a_script_gets_the_block_size_and_only_that(shell: list[str]) -> None:
    answer = run([*shell, "-c", "work_mem=5MB", "--scale", "1", "--", "-At", "-c", "show block_size",
                  "-c", "show work_mem", "-c", "select count(*) from pgbench_accounts"])  # fmt: skip
    assert answer.stdout.split() == ["4096", "5MB", "100000"]
    assert answer.returncode == 0
    assert answer.stderr.startswith("PostgreSQL 18")
    assert "data block 4kB, WAL block 8kB" in answer.stderr
    assert not socket_directory(answer.stderr).exists()


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
def test_the_exit_code_is_that_of_psql(shell: list[str]) -> None:
    assert run([*shell, "--", "-v", "ON_ERROR_STOP=1"], typed="select 1/0;\n").returncode == 3


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
@pytest.mark.parametrize(
    ("setting", "code", "said"),
    [
        ("block_size=1", 1, 'parameter "block_size" cannot be changed'),
        ("work_mem", 2, "is not a setting; write NAME=VALUE"),
    ],
)
def test_a_wrong_setting_is_one_line(shell: list[str], setting: str, code: int, said: str) -> None:
    answer = run([*shell, "-c", setting, "--", "-c", "select 1"])
    assert (answer.returncode, len(answer.stderr.splitlines())) == (code, 1)
    assert said in answer.stderr
    assert "log is" not in answer.stderr  # the log is removed by then


def start(command: Sequence[str]) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def wait_until_connected(child: "subprocess.Popen[str]") -> Path:
    """Returns the socket's directory after psql has answered: server, psql and their journal entries exist."""
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    place = socket_directory(child.stderr.readline())
    child.stdin.write("select 'connected';\n")
    child.stdin.flush()
    assert child.stdout.readline() == "connected\n"
    assert place.is_dir()
    return place


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
def test_everything_goes_with_a_sigterm(shell: list[str]) -> None:
    with start([*shell, "--", "-At"]) as child:
        place = wait_until_connected(child)
        child.terminate()
        assert child.wait(PATIENCE_SECONDS) == 130
    assert not place.exists()


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
def test_what_a_killed_shell_leaves_goes_with_the_next_command(shell: list[str], home: Path) -> None:
    with start([*shell, "--", "-At"]) as child:
        place = wait_until_connected(child)
        child.kill()
        child.wait(PATIENCE_SECONDS)
        assert running_below(home)
        told = "\n".join(recover())
    assert "ended psql" in told
    assert "ended server" in told
    assert not place.exists()


class Terminal:
    """A pseudo-terminal that runs a command."""

    def __init__(self, command: Sequence[str]) -> None:
        self.seen = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            for by_default in (signal.SIGHUP, signal.SIGINT):  # the process that runs the tests may ignore them
                signal.signal(by_default, signal.SIG_DFL)
            os.execve(command[0], list(command), {**os.environ, "TERM": "dumb", "PSQLRC": os.devnull, "PAGER": ""})  # noqa: S606

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def wait_for(self, text: str) -> None:
        """Reads until the text appears; the text after it is kept for the next call."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.seen:
            ready, _, _ = select.select([self.descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {text!r} in {self.seen!r}"
            try:
                self.seen += os.read(self.descriptor, 4096).decode(errors="replace")
            except OSError as error:  # EIO: the last process on the terminal has ended
                raise AssertionError(f"the command ended without {text!r}: {self.seen!r}") from error
        self.seen = self.seen.partition(text)[2]

    def exit_code(self) -> int:
        """Waits for the end, with a separate deadline (pidfd_open(2))."""
        watched = os.pidfd_open(self.pid)
        ended, _, _ = select.select([watched], [], [], PATIENCE_SECONDS)
        os.close(watched)
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
def test_on_a_terminal_ctrl_c_ends_the_query_and_ctrl_d_the_shell(shell: list[str]) -> None:
    terminal = Terminal(shell)
    terminal.wait_for("all of it is removed when psql exits")
    terminal.wait_for("=# ")
    # A notice is sent from within the statement, so that there is one to cancel.
    terminal.type("do $$ begin raise notice 'begun'; perform pg_sleep(600); end $$;\n")
    terminal.wait_for("NOTICE:")
    terminal.type("\x03")
    terminal.wait_for("canceling statement due to user request")
    terminal.wait_for("=# ")
    terminal.type("\x03")
    terminal.wait_for("=# ")
    terminal.type("show block_size;\n")
    terminal.wait_for("4096")
    # An end of file before the prompt may be lost: readline changes the terminal's mode there.
    terminal.wait_for("=# ")
    terminal.type("\x04")
    assert terminal.exit_code() == 0
    os.close(terminal.descriptor)


@pytest.mark.parametrize("build", ["4kB"], indirect=True)
def test_everything_goes_with_the_terminal(shell: list[str]) -> None:
    terminal = Terminal(shell)
    terminal.wait_for("=# ")
    os.close(terminal.descriptor)
    assert terminal.exit_code() != 0
