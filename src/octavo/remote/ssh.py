"""A command on many hosts over SSH: so many at a time, each with so much time and output, and no host's error ends it.

The user's own ssh does it, with his agent, keys and configuration. It asks nothing, and forwards nothing.
"""

import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO

from octavo.host import children
from octavo.host.journal import Journal
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
_OPTIONS = (
    "BatchMode=yes", f"ConnectTimeout={_CONNECT_SECONDS}", "ServerAliveInterval=5", "ServerAliveCountMax=3",
    "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "RequestTTY=no",
    "EscapeChar=none", "LogLevel=ERROR",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """What a host's command wrote and its exit code, or the `problem` on one line: then neither is worth anything."""

    host: RemoteHost
    code: int
    output: bytes
    problem: str | None = None


def command_line(host: RemoteHost, words: Sequence[str], seconds: int) -> list[str]:
    """The local command that runs these words there, which the host itself ends after so many seconds.

    >>> command_line(RemoteHost("a", "a.example.com", "me", 2222), ["octavo", "runs; rm"], 9)[-6:]
    ['-p', '2222', '-l', 'me', 'a.example.com', "timeout 9 octavo 'runs; rm'"]
    """
    found = ["ssh"]
    for option in _OPTIONS:
        found += ["-o", option]
    if host.identity is not None:
        found += ["-i", str(host.identity), "-o", "IdentitiesOnly=yes"]
    if host.known_hosts is not None:
        found += ["-o", f'UserKnownHostsFile="{host.known_hosts}"', "-o", "StrictHostKeyChecking=yes"]
    if host.port is not None:
        found += ["-p", str(host.port)]
    if host.user is not None:
        found += ["-l", host.user]
    # No "--": what the file allows as an address does not begin with a dash.
    return [*found, host.address, shlex.join(["timeout", str(seconds), *words])]


def on_each(
    hosts: Sequence[RemoteHost],
    words: Callable[[RemoteHost], Sequence[str]],
    journal: Journal,
    *,
    seconds: int,
    most_bytes: int,
    at_once: int = AT_ONCE,
) -> Iterator[Answer]:
    """Runs a command on every host, and gives each one's answer as it comes. Raises HostError when there is no ssh.

    `seconds` are the command's; connecting has its own. Whoever leaves off early ends those that run.
    """
    waiting = list(reversed(hosts))
    running: list[_Running] = []
    patience = seconds + _CONNECT_SECONDS + 5
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    host = waiting.pop()
                    running.append(
                        _Running(host, command_line(host, words(host), seconds), journal, patience, selector)
                    )
                first = min(one.deadline for one in running)
                for key, _ in selector.select(max(0.0, first - time.monotonic())):
                    key.data()
                for one in [one for one in running if one.is_done(most_bytes)]:
                    running.remove(one)
                    yield one.answer()
        finally:
            for one in running:
                one.end()


class _Running:
    """One host's ssh."""

    def __init__(
        self, host: RemoteHost, command: list[str], journal: Journal, patience: int, selector: selectors.BaseSelector
    ) -> None:
        self._host, self._patience, self._journal, self._selector = host, patience, journal, selector
        self._output, self._errors = bytearray(), bytearray()
        self._problem: str | None = None
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._child, self._number = children.start(command, journal, role="ssh", environment=environment)
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

    def answer(self) -> Answer:
        """When it is done: what it said."""
        if self._problem is None:
            with suppress(subprocess.TimeoutExpired):  # it has closed its output, and ends now or never
                self._child.wait(max(0.0, self.deadline - time.monotonic()))
        self.end()
        code = self._child.returncode
        return Answer(self._host, code, bytes(self._output), self._problem or self._why(code))

    def _why(self, code: int) -> str | None:
        """What went wrong where the command could not be run; what it says itself of its code is the caller's."""
        lines = self._errors.decode(errors="replace").strip().splitlines()
        said = one_line(lines[-1])[:_LONGEST_TOLD] if lines else ""
        if code == _SSH_FAILED:
            return said or "ssh failed and says nothing"
        if code == _TIMED_OUT:
            return "its command was still running when its time was over"
        if code == _NOT_FOUND:
            return f"there is no such command there ({said})"
        if not self._output:
            return said or f"its command says nothing (exit {code})"
        return None
