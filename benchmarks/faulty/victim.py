"""A command of Octavo that is started and killed at some moment; what it had reported by then; the restored host."""

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from octavo.errors import HostError
from octavo.host.lock import host_lock

from .fingerprint import Ours, difference, left_for_good, take

ROOT = Path(__file__).parents[2]
Way = Literal["SIGKILL", "SIGTERM", "SIGINT twice"]
WAYS: tuple[Way, ...] = ("SIGKILL", "SIGTERM", "SIGINT twice")
# Allowed exit codes: success, if the command ends before its kill; otherwise the signal, or that of an interrupt.
KILLED = (0, -9, -15, -2, 130)

Trial = tuple[int, str]

_REPORTED = re.compile(r"^round (\d+), trial \d+ of \d+: (.+?): tps ")
# The time to clean up after a signal.
_PATIENCE_SECONDS = 60.0
_BETWEEN_LOOKS_SECONDS = 0.5
_BETWEEN_JOURNALS_SECONDS = 0.05
# Moments are drawn from the whole duration of a command and a little more, so that its last actions are hit, too.
_BEYOND = 1.03


@dataclass
class Row:
    """A row of the table. `problems`: tracebacks, hangs, refused resumes, none of which may happen."""

    scenario: str
    kills: int = 0
    at_once: int = 0
    by_restore: int = 0
    lost: int = 0
    left: list[str] = field(default_factory=list[str])
    resumed: int = 0
    to_resume: int = 0
    problems: list[str] = field(default_factory=list[str])

    def sound(self) -> bool:
        """Whether nothing was lost or left, and all interrupted work was resumed."""
        return not self.lost and not self.left and not self.problems and self.resumed == self.to_resume


@dataclass(frozen=True, slots=True)
class Kill:
    """The seconds until the first signal, the kind of kill, and the seconds from the first to the second signal."""

    after: float
    way: Way
    again: float

    def __str__(self) -> str:
        """The text in a problem."""
        return f"{self.way} after {self.after:.2f} s"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command: its exit code (negative: a signal), its lines, and its duration in seconds."""

    code: int
    lines: Sequence[str]
    seconds: float

    @property
    def trials(self) -> set[Trial]:
        """The trials that it reported as finished: round and cell."""
        return {(int(found[1]), found[2]) for line in self.lines if (found := _REPORTED.match(line))}

    @property
    def last(self) -> str:
        """Its last line."""
        return self.lines[-1] if self.lines else "it said nothing"


def draw_kills(draw: random.Random, count: int, longest: float) -> list[Kill]:
    """That many kills, each way in turn; one moment from each equal part of the whole duration, in random order."""
    parts = draw.sample(range(count), count)
    return [
        Kill(
            (part + draw.random()) / count * _BEYOND * longest,
            WAYS[number % len(WAYS)],
            draw.uniform(0.0, 1.0),
        )
        for number, part in enumerate(parts)
    ]


def octavo(
    ours: Ours,
    home: Path,
    *arguments: str | Path,
    kill: Kill | None = None,
    on_line: Callable[[str, subprocess.Popen[str]], None] | None = None,
    before: Sequence[str] = (),
) -> Ended:
    """Runs `./octavo`, preceded by the words `before`; `on_line` gets its output. Waits while another run measures."""
    while True:
        ended = _once(ours, home, [*before, str(ROOT / "octavo"), *map(str, arguments)], kill, on_line)
        if ended.code != HostError.exit_code or "is measuring on this host" not in ended.last:
            return ended
        _wait_for_the_host()


def _wait_for_the_host() -> None:
    """Waits until nobody holds the run lock."""
    while True:
        try:
            with host_lock():
                return
        except HostError:
            time.sleep(_BETWEEN_LOOKS_SECONDS)


def _once(
    ours: Ours,
    home: Path,
    command: Sequence[str],
    kill: Kill | None,
    on_line: Callable[[str, subprocess.Popen[str]], None] | None,
) -> Ended:
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        errors="replace", env={**os.environ, "OCTAVO_HOME": str(home)}, cwd="/", start_new_session=True,
    )  # fmt: skip
    hung: list[Kill] = []
    killer = threading.Thread(target=_kill, args=(ours, home, process, kill, hung)) if kill else None
    if killer:
        killer.start()
    lines: list[str] = []
    assert process.stderr is not None
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(ours, home, over))
    watcher.start()
    try:
        with process.stderr:
            for line in process.stderr:
                lines.append(line.rstrip("\n"))
                ours.learn(home)
                if on_line:
                    on_line(lines[-1], process)
        code = process.wait()
    except BaseException:  # we were interrupted: the command cleans up, or restore does
        process.terminate()
        process.wait()
        raise
    finally:
        over.set()
        watcher.join()
    if killer:
        killer.join()
    lines += [f"it did not end within {_PATIENCE_SECONDS:.0f} s of its {one.way}" for one in hung]
    return Ended(code, lines, time.monotonic() - began)


def _watch(ours: Ours, home: Path, over: threading.Event) -> None:
    while not over.wait(_BETWEEN_JOURNALS_SECONDS):
        ours.learn(home)


def _kill(ours: Ours, home: Path, process: subprocess.Popen[str], kill: Kill, hung: list[Kill]) -> None:
    """Sends the signal, for SIGINT twice; a process that does not end then is killed, and recorded as hung."""
    first = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT twice": signal.SIGINT}[kill.way]
    steps = [(kill.after, first), *([(kill.again, first)] if kill.way == "SIGINT twice" else [])]
    for seconds, number in steps:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            ours.learn(home)
            process.send_signal(number)
        else:
            return
    try:
        process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        hung.append(kill)
        process.kill()


def put_back(
    row: Row, ours: Ours, home: Path, before: dict[str, str], kill: Kill | None = None, *, counted: bool = True
) -> None:
    """Compares the host after a kill or a fault, restores it if necessary, and counts.

    Only a SIGKILL may leave work for the restore: after any other signal the command restores everything itself, and so
    does one that ends normally, which is not `counted`.
    """
    ours.learn(home)
    found = difference(ours, before, take(ours))
    if found and (not counted or (kill is not None and kill.way != "SIGKILL")):
        found = left_for_good(ours, before)
    if not found:
        row.at_once += counted
        _told(row, kill, "as it was")
        return
    if not counted or (kill is not None and kill.way != "SIGKILL"):
        when = "after a command that ended" if kill is None else f"after {kill}"
        row.problems += [f"not put back at once {when}: {line}" for line in found]
    ended = octavo(ours, home, "host", "restore")
    left = left_for_good(ours, before)
    _told(row, kill, f"{len(left)} left after {len(found)} for restore")
    for line in left:
        print(f"    {line}", file=sys.stderr, flush=True)
    row.left += left
    row.by_restore += counted and not left
    if ended.code != 0:
        row.problems.append(f"host restore ended with {ended.code}: {ended.last}")


def _told(row: Row, kill: Kill | None, what: str) -> None:
    lost = f", {row.lost} lost so far" if row.lost else ""
    print(f"  {row.kills}: {kill or 'ended'}: {what}{lost}", file=sys.stderr, flush=True)


def check_ended(row: Row, ended: Ended, *, allowed: Sequence[int], kill: Kill | None = None) -> None:
    """Records a traceback, a hang, or an exit code that is not allowed."""
    when = f" ({kill})" if kill else ""
    if any("Traceback" in line for line in ended.lines):
        row.problems.append(f"a traceback{when}: {ended.last}")
    elif ended.code not in allowed or "did not end within" in ended.last:
        row.problems.append(f"exit code {ended.code}{when}: {ended.last}")


@dataclass(frozen=True, slots=True)
class Stored:
    """The newest run of a store: its id and status, its trials that ended well, the others, and two durations in
    seconds.

    `preparing` is the time until its first trial began, `measuring` that of all its trials.
    """

    run: str
    status: str
    finished: frozenset[Trial]
    others: tuple[str, ...]
    preparing: float
    measuring: float


def newest(home: Path) -> Stored | None:
    """The newest run in the store; None if there is none."""
    if not (home / "octavo.sqlite").exists():
        return None
    with closing(sqlite3.connect(home / "octavo.sqlite", timeout=60)) as store:
        if not store.execute("SELECT count(*) FROM sqlite_master WHERE name = 'trial'").fetchone()[0]:
            return None
        found = store.execute("SELECT id, status, started FROM run ORDER BY started DESC, id DESC LIMIT 1").fetchone()
        if found is None:
            return None
        rows = store.execute(
            "SELECT round, cell, status, reason, started, ended FROM trial WHERE run = ? ORDER BY id", (found[0],)
        ).fetchall()
    return Stored(
        found[0],
        found[1],
        frozenset((int(number), str(cell)) for number, cell, status, *_ in rows if status == "ok"),
        tuple(f"{status}: {reason}" for _, _, status, reason, *_ in rows if status != "ok"),
        rows[0][4] - found[2] if rows else 0.0,
        sum(ended - began for *_, began, ended in rows),
    )
