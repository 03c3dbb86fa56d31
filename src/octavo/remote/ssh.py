"""A command on many hosts over SSH: a limited number at a time, each with a limit on time and output; an error of one
host does not end the others.

It uses the user's own ssh, with the user's agent, keys and configuration, without prompts and forwarding. A host with
`through` is reached by that command instead.
"""

import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO

from octavo.errors import HostError
from octavo.host import children
from octavo.host.journal import TOKEN_VARIABLE, Journal
from octavo.remote.hosts_file import RemoteHost
from octavo.text import one_line
from octavo.units import human_size

AT_ONCE = 20
_PIECE = 1024**2
_MOST_ERRORS = 64 * 1024
_LONGEST_TOLD = 300
_CONNECT_SECONDS = 10
# ssh's own exit code for an error of its own (ssh(1)); timeout's and a shell's.
_SSH_FAILED, _TIMED_OUT, _NOT_FOUND = 255, 124, 127
_KEPT = ("SSH_AUTH_SOCK", "KRB5CCNAME", "HOME")
# ControlMaster: a connection that the user shares is used, and none is made. Its process would stay (ControlPersist),
# and be ended with all of its other sessions when our journal closes.
_OPTIONS = (
    "BatchMode=yes", "StrictHostKeyChecking=yes", f"ConnectTimeout={_CONNECT_SECONDS}", "ServerAliveInterval=5",
    "ServerAliveCountMax=3", "ControlMaster=no", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no",
    "PermitLocalCommand=no", "RequestTTY=no", "EscapeChar=none", "LogLevel=ERROR",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """The output and exit code of a host's command, or the `problem` on one line: then output and code are meaningless.

    `last_error` is the last line of its standard error, harmless to print.
    """

    host: RemoteHost
    code: int
    output: bytes
    problem: str | None = None
    last_error: str = ""

    @property
    def failure(self) -> str | None:
        """Why the command did not do its work, on one line; None when its exit code is 0."""
        if self.problem is not None or self.code == 0:
            return self.problem
        message = self.last_error or _last_line(self.output) or f"no output (exit {self.code})"
        return message.removeprefix("octavo: ")


def command_line(host: RemoteHost, words: Sequence[str], seconds: int) -> list[str]:
    """The local command that runs these words on the host, which ends them itself after so many seconds.

    >>> command_line(RemoteHost("a", "a.example.com", "me", 2222), ["octavo", "runs; rm"], 9)[-6:]
    ['-p', '2222', '-l', 'me', 'a.example.com', "timeout 9 octavo 'runs; rm'"]
    >>> command_line(RemoteHost("a", "a", through=("chroot", "/a")), ["octavo", "runs"], 9)
    ['chroot', '/a', 'env', '-u', 'OCTAVO_TOKEN', 'timeout', '9', 'octavo', 'runs']
    """
    limited = ["timeout", str(seconds), *words]
    if host.through:
        # As over ssh, what the command leaves running there is not ours: without the token no journal ends it.
        return [*host.through, "env", "-u", TOKEN_VARIABLE, *limited]
    found = ["ssh"]
    for option in _OPTIONS:
        found += ["-o", option]
    if host.identity is not None:
        found += ["-i", str(host.identity), "-o", "IdentitiesOnly=yes"]
    if host.known_hosts is not None:
        found += ["-o", f'UserKnownHostsFile="{host.known_hosts}"']
    if host.port is not None:
        found += ["-p", str(host.port)]
    if host.user is not None:
        found += ["-l", host.user]
    # No "--": what the file allows as an address does not begin with a dash.
    return [*found, host.address, shlex.join(limited)]


def on_each(
    hosts: Sequence[RemoteHost],
    words: Callable[[RemoteHost], Sequence[str]],
    journal: Journal,
    *,
    seconds: int,
    most_bytes: int,
    at_once: int = AT_ONCE,
    inputs: Mapping[str, bytes] | None = None,
) -> Iterator[HostAnswer]:
    """Runs a command on every host, and gives each one's answer as it comes.

    `seconds` are the command's; connecting has its own. `inputs` are standard inputs by the host's name. Whoever leaves
    off early ends those that run.
    """
    waiting = list(reversed(hosts))
    running: list[_Running] = []
    patience = seconds + _CONNECT_SECONDS + 5
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    host = waiting.pop()
                    command, text = command_line(host, words(host), seconds), (inputs or {}).get(host.name)
                    try:
                        running.append(_Running(host, command, text, journal, patience, selector))
                    except HostError as error:  # there is no ssh, or no such word
                        yield HostAnswer(host, _NOT_FOUND, b"", str(error))
                first = min((one.deadline for one in running), default=0.0)
                for key, _ in selector.select(max(0.0, first - time.monotonic())):
                    key.data()
                for one in [one for one in running if one.is_done(most_bytes)]:
                    running.remove(one)
                    yield one.answer()
        finally:
            for one in running:
                one.end()


class _Running:
    """One host's ssh. Raises HostError when it cannot be started."""

    def __init__(
        self,
        host: RemoteHost,
        command: list[str],
        text: bytes | None,
        journal: Journal,
        patience: int,
        selector: selectors.BaseSelector,
    ) -> None:
        self._host, self._patience, self._journal, self._selector = host, patience, journal, selector
        self._output, self._errors = bytearray(), bytearray()
        self._problem: str | None = None
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        with _standard_input(text) as stdin:
            self._child, self._number = children.start(
                command, journal, role="ssh", environment=environment, stdin=stdin
            )
        self.deadline = time.monotonic() + patience
        self._open: list[IO[str]] = []
        for pipe, kept in ((self._child.stdout, self._output), (self._child.stderr, self._errors)):
            assert pipe is not None
            self._open.append(pipe)
            selector.register(pipe, selectors.EVENT_READ, partial(self._read, pipe, kept))

    def _read(self, pipe: IO[str], kept: bytearray) -> None:
        piece = os.read(pipe.fileno(), _PIECE)
        kept += piece
        if kept is self._errors:
            del kept[:-_MOST_ERRORS]
        if not piece:
            self._close(pipe)

    def _close(self, pipe: IO[str]) -> None:
        self._open.remove(pipe)
        self._selector.unregister(pipe)
        pipe.close()

    def is_done(self, most_bytes: int) -> bool:
        """Whether it has ended by itself, is out of time, or wrote too much."""
        if len(self._output) > most_bytes:
            self._problem = f"its answer has more than {human_size(most_bytes)}"
        elif time.monotonic() >= self.deadline:
            self._problem = f"it has not answered within {self._patience} s"
        return self._problem is not None or not self._open

    def end(self) -> None:
        """Ends it at once, with all that it has started."""
        if self._child.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        children.ended(self._journal, self._number)
        for pipe in list(self._open):
            self._close(pipe)

    def answer(self) -> HostAnswer:
        """The answer, once the command has ended."""
        if self._problem is None:
            with suppress(subprocess.TimeoutExpired):  # it has closed its output, and ends now or never
                self._child.wait(max(0.0, self.deadline - time.monotonic()))
        self.end()
        code, last_error = self._child.returncode, _last_line(self._errors)
        problem = self._problem or self._why(code, last_error)
        return HostAnswer(self._host, code, bytes(self._output), problem, last_error)

    def _why(self, code: int, said: str) -> str | None:
        """What went wrong where the command could not be run; what it says itself of its code is the caller's."""
        if code == _SSH_FAILED:
            return said or "ssh failed without a message"
        if code == _TIMED_OUT:
            return "the command did not end in time"
        if code == _NOT_FOUND:
            return f"the command does not exist on the host ({said})"
        if code != 0 and not self._output:
            return said.removeprefix("octavo: ") or f"no output (exit {code})"
        return None


@contextmanager
def _standard_input(text: bytes | None) -> Generator[int, None, None]:
    """A descriptor of this text, which may be a private key: in memory, and without a limit as a pipe has one."""
    if text is None:
        yield subprocess.DEVNULL
        return
    with os.fdopen(os.memfd_create("stdin", os.MFD_CLOEXEC), "wb") as file:
        file.write(text)
        file.flush()
        file.seek(0)
        yield file.fileno()


def _last_line(written: bytes | bytearray) -> str:
    """The last line of what a host wrote, without what a terminal would act upon."""
    lines = written.decode(errors="replace").strip().splitlines()
    return one_line(lines[-1])[:_LONGEST_TOLD] if lines else ""
