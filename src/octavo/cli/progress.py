"""Progress: a live line on a terminal, one line an event elsewhere."""

import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from octavo.analysis.running_ratio import running_ratios
from octavo.cli.output import console
from octavo.cli.ratio_lines import RatioLine, Rounds, table
from octavo.host.journal import Journal
from octavo.host.lock import host_lock
from octavo.lab.events import (
    BuildProgress,
    Estimated,
    Event,
    Notice,
    Preparing,
    RoundsStarted,
    RoundStarted,
    TrialEnded,
    TrialStarted,
    TurnsGoOn,
)
from octavo.plan.cells import Cell
from octavo.postgres.builds.cache import Build
from octavo.postgres.builds.make import Report, ensure_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.report.numbers import amount
from octavo.store.records import TrialRecord
from octavo.units import human_count, human_duration

# Without a terminal, a build says how far it is at each quarter.
_QUARTERS = 4


class RunProgress:
    """Shows a run's events on standard error; a context manager that leaves the terminal as it was."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._bars: _Bars | None = _bars(self._console) if self._console.is_terminal else None
        self._task: TaskID | None = None
        self._durations: list[float] = []
        self._quarter: dict[str, int] = {}
        self._cells: tuple[Cell, ...] = ()
        self._trials: list[TrialRecord] = []
        self._rounds = Rounds()

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, event: Event) -> None:
        """Shows one event."""
        match event:
            case BuildProgress():
                self._build(event)
            case Preparing():
                self._say(f"preparing {event.what}")
            case Estimated():
                self._estimated(event)
            case RoundsStarted():
                self._cells, self._trials = event.cells, list(event.trials)
            case RoundStarted():
                self._round(event)
            case TrialStarted():
                self._started(event)
            case TrialEnded():
                self._ended(event)
            case TurnsGoOn():
                self._turns(event)
            case Notice():
                self._say(event.text)

    def _build(self, event: BuildProgress) -> None:
        step = event.step
        ahead = f"step {step.done} of {step.total}; builds ready in about {human_duration(step.left)}"
        then = f"; next: {step.then}" if step.then else ""
        if self._bars is not None:
            self._show(step.doing, step.done, step.total, f"{ahead}{then}")
        quarter = step.done * _QUARTERS // max(step.total, 1)
        if quarter > self._quarter.get(step.doing, -1):
            self._quarter[step.doing] = quarter
            if self._bars is None:
                self._say(f"{step.doing}: {ahead}{then}")

    def _estimated(self, event: Estimated) -> None:
        prepare, trials = human_duration(event.prepare_seconds), human_duration(event.trial_seconds)
        if event.budget_seconds is not None:
            self._say(f"estimate: about {prepare} to prepare; the budget is {human_duration(event.budget_seconds)}")
        else:
            self._say(
                f"estimate: at most {prepare} to prepare and {trials} for {human_count(event.trials, 'trial')}; "
                f"repetitions of invalid trials may add up to {human_duration(event.repeat_seconds)}"
            )

    def _round(self, event: RoundStarted) -> None:
        of = f" of at most {event.rounds}" if event.rounds is not None else ""
        left = f"; {human_duration(event.seconds_left)} of the budget left" if event.seconds_left is not None else ""
        waiting = f" ({event.waiting} waiting)" if event.waiting else ""
        self._say(
            f"round {event.round}{of}: {human_count(event.undecided, 'cell')} undecided{waiting}, "
            f"{event.decided} decided{left}"
        )

    def _started(self, event: TrialStarted) -> None:
        if self._bars is not None:
            what = f"round {event.round}: {'repeating ' if event.repetition else ''}{event.cell.id}"
            self._show(what, event.number - 1, event.total, self._left(event.total - event.number + 1))

    def _turns(self, event: TurnsGoOn) -> None:
        """Shows the ratios and their intervals while the round runs; the final ones stay on the screen."""
        if not event.ratios:
            return
        condition = event.ratios[0][0].condition
        lines = [RatioLine(cell.label, ratio, low, high) for cell, ratio, low, high in event.ratios]
        if event.ended:
            for line in lines:
                self._rounds.add(condition, line)
            what = ", about 95 % intervals" if any(line.interval for line in lines) else ""
            self._say(f"round {event.round}, ratios of this round alone{what}: {', '.join(map(str, lines))}")
        if self._bars is not None:
            so_far = [self._rounds.with_now(condition, line) for line in lines]
            self._bars.below = None if event.ended else table(condition or "ratio to the baseline", so_far)
            self._show(f"round {event.round}, in slices", round(event.done * 100), 100, "")

    def _ended(self, event: TrialEnded) -> None:
        record = event.record
        self._durations.append(record.ended - record.started)
        left = self._left(event.total - event.number)
        first = record.observations[0] if record.observations else None
        result = f"{first.metric} {amount(first.value, first.unit)}" if first else ""
        status = result if record.status == "ok" else f"{record.status}: {record.reason}"
        self._trials.append(record)
        ratios = running_ratios(self._cells, self._trials, first.metric) if first else {}
        ratio = ratios.get((event.cell.condition, event.cell.label))
        so_far = f", ratio so far {ratio:.3f}" if ratio is not None else ""
        host = f"{name}: " if (name := (record.facts or {}).get("host")) else ""
        which = f"repetition {event.repetition}" if event.repetition else f"trial {event.number} of {event.total}"
        self._say(f"{host}round {record.round}, {which}: {event.cell.id}: {status}{so_far}")
        if self._bars is not None:
            self._show(f"round {record.round}", event.number, event.total, left)

    def _left(self, trials: int) -> str:
        if not self._durations:
            return ""
        return f"{human_duration(trials * sum(self._durations) / len(self._durations))} left in this round"

    def _show(self, what: str, done: int, total: int, note: str) -> None:
        assert self._bars is not None
        if self._task is None:
            self._task = self._bars.add_task(what, total=total, note="")
        self._bars.update(self._task, description=what, completed=done, total=total, note=note)

    def _say(self, text: str) -> None:
        if self._bars is not None:
            self._bars.console.print(text, style="dim")
        else:
            # A plain print: a log has no width to wrap at.
            print(text, file=sys.stderr, flush=True)


@contextmanager
def build_progress() -> Generator[Report, None, None]:
    """A progress callback for builds."""
    with RunProgress() as progress:
        yield lambda step: progress(BuildProgress(step))


@contextmanager
def built(specs: Sequence[BuildSpec]) -> Generator[tuple[list[Build], Journal], None, None]:
    """Holds the host's lock and yields these builds, made where the cache has none, and the journal."""
    with host_lock(), Journal() as journal:
        with build_progress() as progress:
            builds = ensure_builds(specs, journal, progress=progress)
        yield builds, journal


class _Bars(Progress):
    """Bars, and what is shown below them."""

    below: RenderableType | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bars first."""
        yield from super().get_renderables()
        if self.below is not None:
            yield self.below


def _bars(target: Console) -> _Bars:
    return _Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
        console=target,
        transient=True,
        refresh_per_second=1,  # it runs beside what is measured
    )
