"""Octavo's command line as a victim: started, killed at a moment, restored after, and what it had reported by then."""

import os
import re
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .fingerprint import Ours, difference, take

ROOT = Path(__file__).parents[2]
Way = Literal["SIGKILL", "SIGTERM", "SIGINT twice"]
WAYS: tuple[Way, ...] = ("SIGKILL", "SIGTERM", "SIGINT twice")

Trial = tuple[int, str]

_REPORTED = re.compile(r"^round (\d+), trial \d+ of \d+: (.+?): tps ")
# After a signal that may clean up.
_PATIENCE_SECONDS = 60.0


@dataclass
class Row:
    """A line of the table. `problems` are what nothing of the kind may happen: tracebacks, hangs, refused resumes."""

    scenario: str
    kills: int = 0
    at_once: int = 0
    by_restore: int = 0
    lost: int = 0
    left: list[str] = field(default_factory=list[str])
    resumed: int = 0
    to_resume: int = 0
    problems: list[str] = field(default_factory=list[str])
    reported: set[Trial] = field(default_factory=set[Trial])
    """The trials that were said to be finished."""

    def sound(self) -> bool:
        """Whether nothing was lost or left, and all resumed."""
        return not self.lost and not self.left and not self.problems and self.resumed == self.to_resume


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative: a signal), its lines, and seconds."""

    code: int
    lines: Sequence[str]
    seconds: float

    @property
    def trials(self) -> list[Trial]:
        """The trials that it reported finished: round and cell."""
        return [(int(found[1]), found[2]) for line in self.lines if (found := _REPORTED.match(line))]

    @property
    def last(self) -> str:
        """Its last line."""
        return self.lines[-1] if self.lines else "it said nothing"


def octavo(
    home: Path,
    *arguments: str | Path,
    kill: tuple[float, Way, float] | None = None,
    on_line: Callable[[str, subprocess.Popen[str]], None] | None = None,
    before: Sequence[str] = (),
) -> Ended:
    """Runs `./octavo`, after the words `before`; `on_line` sees what it says.

    `kill` are the seconds until a signal, which one, and those until the second one.
    """
    began = time.monotonic()
    process = subprocess.Popen(
        [*before, str(ROOT / "octavo"), *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        env={**os.environ, "OCTAVO_HOME": str(home)}, cwd="/", start_new_session=True,
    )  # fmt: skip
    killer = threading.Thread(target=_kill, args=(process, *kill)) if kill else None
    if killer:
        killer.start()
    lines: list[str] = []
    assert process.stderr is not None
    try:
        with process.stderr:
            for line in process.stderr:
                lines.append(line.rstrip("\n"))
                if on_line:
                    on_line(lines[-1], process)
        code = process.wait()
    except BaseException:  # we are interrupted ourselves: it cleans up, or restore does
        process.terminate()
        process.wait()
        raise
    if killer:
        killer.join()
    return Ended(code, lines, time.monotonic() - began)


def until_trials(home: Path, wanted: int, *arguments: str | Path) -> Ended:
    """Runs octavo until it has reported so many trials, and interrupts it then."""
    done: list[str] = []

    def watch(line: str, process: subprocess.Popen[str]) -> None:
        if _REPORTED.match(line):
            done.append(line)
            if len(done) == wanted:
                process.send_signal(signal.SIGINT)

    return octavo(home, *arguments, on_line=watch)


def _kill(process: subprocess.Popen[str], seconds: float, way: Way, again: float) -> None:
    first = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT twice": signal.SIGINT}[way]
    for patience, number in ((seconds, first), (again, signal.SIGINT if way == "SIGINT twice" else None)):
        try:
            process.wait(patience if number is not None else 0)
            return
        except subprocess.TimeoutExpired:
            if number is not None:
                process.send_signal(number)
    try:
        process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def put_back(row: Row, ours: Ours, home: Path, before: dict[str, str]) -> None:
    """Looks at the host after a kill, restores it where that is needed, and counts."""
    row.kills += 1
    ours.learn(home)
    if not difference(before, take(ours)):
        row.at_once += 1
        return
    ended = octavo(home, "host", "restore")
    left = difference(before, take(ours))
    row.left += left
    row.by_restore += not left
    if ended.code != 0:
        row.problems.append(f"host restore ended with {ended.code}: {ended.last}")


def check_ended(row: Row, ended: Ended, *, allowed: Sequence[int]) -> None:
    """Notes a traceback, a hang, or an exit code that is none of those."""
    if any("Traceback" in line for line in ended.lines):
        row.problems.append(f"a traceback: {ended.last}")
    elif ended.code not in allowed:
        row.problems.append(f"exit code {ended.code}: {ended.last}")


def stored(home: Path) -> set[Trial]:
    """The finished trials of the newest run in the store: round and cell."""
    with closing(sqlite3.connect(home / "octavo.sqlite")) as store:
        rows = store.execute(
            "SELECT round, cell FROM trial WHERE status = 'ok' AND run = (SELECT id FROM run ORDER BY started DESC)"
        ).fetchall()
    return {(int(number), str(cell)) for number, cell in rows}
