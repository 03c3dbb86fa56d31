"""Progress of `octavo io` on standard error: a live line on a terminal, one line a measurement elsewhere."""

import time
from typing import Any, Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from octavo.cli.output import console
from octavo.io.engine import Observe
from octavo.io.job import Job
from octavo.io.policies import Policy
from octavo.units import human_size

_REDRAW_SECONDS = 0.1


class IoProgress:
    """A context manager that leaves the terminal as it was. It draws only when the engine calls: no thread of its own
    takes CPU time from the measurement."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._drawn = 0.0
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TextColumn("{task.fields[told]}"))
            self._bar = Progress(*columns, console=self._console, transient=True, auto_refresh=False, expand=True)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=1, told="")
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def stop(self) -> None:
        """Clears the line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def begin(self, policy: Policy, job: Job) -> Observe:
        """A progress display for this measurement. Without a terminal it prints once that it has begun."""
        what = f"{policy.name}, {'direct' if job.direct else job.cache}"
        until = f"{job.seconds:g} s" if job.seconds else f"{job.blocks:,} blocks" if job.blocks else "the list once"
        said = False

        def observe(phase: str, done: float, total: int) -> None:
            nonlocal said
            if self._bar is None and not said:
                self._console.print(f"octavo io: {what}: {until}")
                said = True
            if phase != "measuring":
                self.observe(phase, done, total)
            elif job.seconds is not None:
                self._draw(what, done / job.seconds, f"{done:.1f} of {job.seconds:g} s, {total:,} blocks")
            elif job.blocks is not None:
                self._draw(what, total / job.blocks, f"{total:,} of {job.blocks:,} blocks")
            else:
                self._draw(what, 0, f"{done:.1f} s, {total:,} blocks")

        return observe

    def probing(self, seconds: float) -> Observe:
        """Shows the progress of a probe of so many seconds."""
        began = time.monotonic()
        said = False

        def observe(phase: str, done: float, total: int) -> None:
            nonlocal said
            if self._bar is None and not said:
                self._console.print(f"octavo io: probing: about {seconds:g} s")
                said = True
            passed = time.monotonic() - began
            self._draw("probing", passed / seconds, f"{passed:.0f} of about {seconds:g} s")

        return observe

    def observe(self, phase: str, done: float, total: int) -> None:
        """Shows how far making a file, or reading it into the page cache, is."""
        what = {"making": "making the file", "filling": "filling the page cache"}[phase]
        self._draw(what, done / total, f"{human_size(done)} of {human_size(total)}")

    def _draw(self, what: str, share: float, told: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=what, completed=min(share, 1.0), told=told)
            if (now := time.monotonic()) - self._drawn > _REDRAW_SECONDS:
                self._drawn = now
                self._bar.refresh()
