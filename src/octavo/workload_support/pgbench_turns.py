"""pgbench that runs until a signal ends it, and whose log is read as it is written.

Its log has times since the epoch, which pgbench computes from CLOCK_MONOTONIC and an offset that it reads once, at its
start (pgbench.c, epoch_shift). The same offset, read here at that moment, gives CLOCK_MONOTONIC again, so setting the
clock meanwhile has no effect.

A timed pgbench ends cleanly at the alarm that it has set for itself (handle_sig_alarm), and writes the rest of its log;
SIGINT does not end it, and SIGTERM discards what it has not yet written.
"""

import os
import signal
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import children
from octavo.host.safe_read import read_tail
from octavo.postgres.cluster import Server
from octavo.workload_support.pgbench_client import complaint, options
from octavo.workloads.base import Levels

_PREFIX = "turns"
# It is told when to end; its own time, which does not stand still with it, must not be up before.
_UNTIL_TOLD_SECONDS = 30 * 86_400
_END_SECONDS = 30.0
_PIECE = 1024**2
# A slice lasts seconds, and a line has about 40 bytes: 2 million transactions a second for ten seconds.
_MOST_SINCE = 1024**3
_LONGEST_LINE = 64 * 1024
_MOST_LOGS = 1024  # one for each thread
_MOST_OUTPUT = 16 * 1024**2


class PausablePgbench:
    """A running pgbench, which is paused while its log is read, so that nothing is written meanwhile."""

    def __init__(
        self,
        server: Server,
        process: subprocess.Popen[str],
        output: Path,
        shift: float,
        count: Callable[[Iterable[str]], Counter[int]] | None = None,
    ) -> None:
        self._server = server
        self._process = process
        self._output = output
        self._shift = shift
        self._logs: dict[Path, _Log] = {}
        self._count = count
        self._counted: Counter[int] = Counter()

    @property
    def pid(self) -> int:
        """pgbench's own."""
        return self._process.pid

    @property
    def output(self) -> str:
        """All it has said so far."""
        return read_tail(self._output, _MOST_OUTPUT)

    @property
    def counted(self) -> Mapping[int, int]:
        """The transactions of its whole life so far by the number that `count` finds, where they are counted."""
        return self._counted

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def finished(self) -> list[tuple[float, float]]:
        """The transactions that it has logged since the last call: CLOCK_MONOTONIC when each ended, and its seconds.

        The part that was read is truncated, so that the files stay small. Failed transactions have no latency and are
        left out.
        """
        for path in self._server.socket_directory.glob(f"{_PREFIX}.*"):
            if path not in self._logs:
                if len(self._logs) >= _MOST_LOGS:
                    raise OctavoError(f"there are more than {_MOST_LOGS} pgbench logs in {path.parent}")
                self._logs[path] = _Log(_open(path, self._server.account.uid))
        if self._count is None:
            return [one for log in self._logs.values() for one in parse(log.lines(), self._shift)]
        lines = [line for log in self._logs.values() for line in log.lines()]
        self._counted += self._count(lines)
        return parse(lines, self._shift)

    def end(self) -> tuple[int, list[tuple[float, float]]]:
        """Lets it finish what it has begun. Returns its exit code and the rest of its log."""
        if self.is_alive():
            self._process.send_signal(signal.SIGALRM)
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                raise OctavoError(f"pgbench did not end within {_END_SECONDS:.0f} s after SIGALRM") from None
        return self._process.returncode, self.finished()

    def close(self) -> None:
        """Ends it at once where it still runs, and removes its log."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        for log in self._logs.values():
            os.close(log.descriptor)
        for path in self._server.socket_directory.glob(f"{_PREFIX}.*"):
            path.unlink(missing_ok=True)


@dataclass(slots=True)
class _Log:
    """A file that one of pgbench's threads writes: how far it was read, and the beginning of a line not yet whole."""

    descriptor: int
    offset: int = 0
    rest: bytes = b""

    def lines(self) -> Generator[str, None, None]:
        """The whole lines since the last call, which are cut off when all were taken.

        Raises OctavoError when it is more than pgbench can have written.
        """
        end = self.offset + _MOST_SINCE
        while piece := os.pread(self.descriptor, _PIECE, self.offset):
            self.offset += len(piece)
            whole, found, self.rest = (self.rest + piece).rpartition(b"\n")
            if self.offset > end or len(self.rest) > _LONGEST_LINE:
                raise OctavoError("pgbench's log has lines that are not pgbench's")
            if found:
                yield from whole.decode(errors="replace").splitlines()
        # pgbench goes on writing at its own place: what lies before is a hole from now on.
        os.ftruncate(self.descriptor, 0)


def _open(path: Path, owner: int) -> int:
    """A descriptor of a log. Its directory is the account's, who could have put a link to another file there.

    Raises OctavoError unless it is a plain file of the account's own.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise OctavoError(f"cannot read pgbench's log {path}: {error.strerror}") from error
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or facts.st_uid != owner:
        os.close(descriptor)
        raise OctavoError(f"pgbench's log {path} is not a regular file")
    return descriptor


def parse(lines: Iterable[str], shift: float) -> list[tuple[float, float]]:
    """From lines of pgbench's log: when each transaction ended, less `shift`, and its latency, in seconds."""
    columns = (line.split() for line in lines)
    return [
        (int(found[4]) - shift + int(found[5]) / 1e6, int(found[2]) / 1e6)
        for found in columns
        if len(found) >= 6 and all(word.isascii() and word.isdecimal() and len(word) < 19 for word in found[2:6])
    ]


@contextmanager
def started(
    server: Server,
    levels: Levels,
    seed: int,
    what: Sequence[str],
    output: Path,
    count: Callable[[Iterable[str]], Counter[int]] | None = None,
) -> Generator[PausablePgbench, None, None]:
    """A pgbench with the options `what`, ended with the context. All its output goes to the file `output`.

    With `count`, which returns the transactions of lines of the log by a number in them, these are counted too.
    """
    logging = ["--log", f"--log-prefix={_PREFIX}"]
    shift = time.time() - time.monotonic()
    process, number = server.start_client(
        "pgbench", *options(levels, seed, _UNTIL_TOLD_SECONDS), *logging, *what, output=output
    )
    client = PausablePgbench(server, process, output, shift, count)
    try:
        yield client
    finally:
        client.close()
        children.ended(server.journal, number)


def problems(code: int, output: str) -> tuple[str, ...]:
    """pgbench's problems, in the words of `pgbench_client`."""
    lines = [line for line in output.splitlines() if "error:" in line or "fatal:" in line]
    if code != 0:
        lines.append(f"pgbench ended with exit code {code}: {complaint(output, '')}")
    return tuple(lines)
