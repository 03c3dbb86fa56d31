"""An active run, shown again whenever a trial is stored, until it ends.

It runs concurrently with the measurement: after each drawing it sleeps long enough to take at most SHARE of one CPU.
"""

import io
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from octavo.analysis.decide import DecisionProgress, decision_progress
from octavo.analysis.document import make_document
from octavo.analysis.shown_metrics import MOST_NUMBERS
from octavo.plan.model import restore_plan
from octavo.report.files import write_html
from octavo.report.terminal import print_report
from octavo.store.store import Store
from octavo.units import human_count

SHARE = 0.02
# How often the store is asked whether there is anything new, and a browser for a new page; seconds.
LOOK, REFRESH = 0.5, 10


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run that can change; a new state is drawn again."""

    status: str
    trials: int
    size: tuple[int, int]

    @property
    def is_running(self) -> bool:
        """Whether there may be more trials."""
        return self.status == "running"


def follow(store: Store, run: str, console: Console, html: Path | None) -> None:
    """Draws the run on the terminal (or prints a line per trial without one), or writes its page, until it ends.

    Ctrl-C quits; the run continues. The whole report stays on the terminal. Raises OctavoError.
    """
    live = Live(console=console, screen=True, auto_refresh=False) if console.is_terminal and html is None else None
    state = None
    with suppress(KeyboardInterrupt), live or nullcontext():
        state = _until_it_ends(store, run, console, lambda now: _draw(store, run, console, live, html, now))
    if html is not None:
        if state is None:  # left: the page no longer loads itself again
            write_html(make_document(store, run, most_numbers=MOST_NUMBERS), html)
        print(html.absolute())
    else:
        print_report(make_document(store, run, most_numbers=0), console)


def _until_it_ends(store: Store, run: str, console: Console, draw: Callable[[RunState], None]) -> RunState:
    shown: RunState | None = None
    rested = 0.0
    while True:
        now = RunState(store.run(run).status, store.count_trials(run), (console.width, console.height))
        if now != shown and (time.monotonic() >= rested or not now.is_running):
            began = time.process_time()
            draw(now)
            shown = now
            rested = time.monotonic() + (time.process_time() - began) / SHARE
        if not now.is_running:
            return now
        time.sleep(LOOK)


def _draw(store: Store, run: str, console: Console, live: Live | None, html: Path | None, state: RunState) -> None:
    if html is not None:
        write_html(
            make_document(store, run, most_numbers=MOST_NUMBERS), html, refresh=REFRESH if state.is_running else None
        )
        return
    status = status_line(store, run, state)
    if live is None:
        console.print(status, soft_wrap=True)
        return
    lines = _lines(make_document(store, run, most_numbers=0), console)
    room = max(1, console.height - 2)
    cut = f" · {len(lines) - room} more lines" if len(lines) > room else ""
    shown = [
        *lines[:room],
        Text(""),
        Text(f"Ctrl-C quits · {status}{cut}", style="bold", no_wrap=True, overflow="ellipsis"),
    ]
    live.update(Text("\n").join(shown), refresh=True)


def status_line(store: Store, run: str, state: RunState) -> str:
    """The run's status in one line: trials, cells, and the rounds left."""
    record = store.run(run)
    plan = restore_plan(record.plan)
    progress: DecisionProgress = decision_progress(
        plan, store.cells(run), store.trials(run), next(iter(record.metrics))
    )
    trials = human_count(state.trials, "trial")
    if plan.stopping == "fixed":  # it decides nothing before its end
        return f"{time.strftime('%H:%M:%S')} · {state.status} · {trials}, analysed once, at the end"
    cells = f"{progress.settled} of {progress.settled + progress.open + progress.given_up} cells decided"
    if progress.given_up:
        cells += f", {progress.given_up} given up"
    ahead = (
        f", all in about {human_count(progress.rounds, 'more round')}"
        if state.is_running and progress.open and progress.rounds
        else ""
    )
    return f"{time.strftime('%H:%M:%S')} · {state.status} · {trials} · {cells}{ahead}"


def _lines(document: dict[str, Any], console: Console) -> list[Text]:
    """The report as the lines of that terminal."""
    drawn = Console(
        file=_Encoded(console.encoding),
        width=console.width,
        force_terminal=True,
        no_color=console.no_color,
        color_system=console.color_system,  # pyright: ignore[reportArgumentType]  # its own name for it
        highlight=False,
        markup=False,
    )
    with drawn.capture() as captured:
        print_report(document, drawn)
    return [Text.from_ansi(line, no_wrap=True, overflow="crop") for line in captured.get().splitlines()]


class _Encoded(io.StringIO):
    """A file that says what encoding it is for; nothing is written to it."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._named = encoding

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._named
