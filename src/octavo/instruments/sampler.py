"""The sampler: one clock, one thread, every sampled instrument at its own period, with the cost of each recorded."""

import math
import threading
import time
from array import array
from dataclasses import dataclass, field
from typing import Protocol

import psycopg

from octavo.instruments.base import Reader, Sampled, UnavailableError
from octavo.instruments.figures import Gauge, Item, Rate, Ratio, Reading, TrialWork, Value, fold, points, totals
from octavo.observation import Metric, Observation, observe
from octavo.series import Series
from octavo.text import one_line


class SamplerClock(Protocol):
    """The sampler's clock."""

    def now(self) -> float:
        """Seconds on a clock that is never adjusted."""
        ...

    def cpu(self) -> float:
        """CPU seconds of the calling thread, including the kernel's work for it."""
        ...

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        """Waits so many seconds, or until stopped. Returns whether it was stopped."""
        ...


class MonotonicClock:
    """The host's clocks (clock_gettime(2): CLOCK_MONOTONIC and CLOCK_THREAD_CPUTIME_ID)."""

    now = staticmethod(time.monotonic)
    cpu = staticmethod(time.thread_time)

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        """Waits on the event."""
        return stopped.wait(seconds)


@dataclass(slots=True)
class _Track:
    """A series that is being recorded."""

    metric: Metric
    seconds: "array[float]" = field(default_factory=lambda: array("d"))
    values: "array[float]" = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class Recording:
    """The readings of one instrument so far. `off` is the reason why it is no longer read, `missed` counts refused
    readings, `based` says that the first reading was taken before the load, and `complete` that the last one is the
    final one, too.

    Unless it `keeps` them there is only the latest reading: for a view that may be open for weeks.
    """

    name: str
    instrument: Sampled
    reader: Reader
    due: float
    keeps: bool = True
    cpu_seconds: float = 0.0
    samples: int = 0
    missed: int = 0
    off: str | None = None
    based: bool = False
    complete: bool = False
    first: Reading | None = None
    first_at: float = 0.0
    last: Reading | None = None
    last_at: float = 0.0
    latest: list[Value] = field(default_factory=list[Value])
    _tracks: dict[tuple[str, Item], _Track] = field(default_factory=dict[tuple[str, Item], _Track])

    @property
    def _counts(self) -> bool:
        return counts(self.instrument)

    def sample(self, clock: SamplerClock, began: float, *, final: bool = False) -> None:
        """Takes a reading. The final one is only for the counters, because its gauges belong to a server without
        load."""
        before = clock.cpu()
        self.latest = []  # without a reading a view shows none, instead of those of an earlier interval
        try:
            reading, at = self.reader.read(), clock.now()
            self._keep(reading, at, began, final=final)
            self.complete = final and self.based
        except UnavailableError as error:
            self.off = str(error)
        except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):  # by a timeout: it was too busy
            self.missed += 1
        except (OSError, ValueError, psycopg.Error) as error:
            self.off = one_line(error)
        self.cpu_seconds += clock.cpu() - before

    def _keep(self, reading: Reading, at: float, began: float, *, final: bool) -> None:
        figures = self.instrument.figures
        if final:
            figures = [figure for figure in figures if not isinstance(figure, Gauge)]
        if self.last is None or self.first is None:
            self.first, self.first_at, self.based = reading, at, not self.missed
            if self._counts:  # taken before the load begins: the base of the counters
                figures = []
        self.latest = list(points(figures, self.last or {}, reading, at - self.last_at))
        for metric, item, value in self.latest if self.keeps else ():
            track = self._tracks.setdefault((metric.name, item), _Track(metric))
            track.seconds.append(at - began)
            track.values.append(value)
        self.last, self.last_at = reading, at
        self.samples += 1

    def series(self) -> list[Series]:
        """All series so far, with seconds since the sampler's start."""
        return [
            Series.of(track.metric.name, track.metric.unit, tuple(track.seconds), tuple(track.values), item)
            for (_, item), track in self._tracks.items()
        ]

    def observations(self, work: TrialWork) -> list[Observation]:
        """The observations of the whole trial: counters from the first to the last reading, gauges over their
        samples. Amounts of the whole trial need the first reading before the load and the final one: without them they
        would be those of a part."""
        if self.first is None or self.last is None:
            return []
        figures = [one for one in self.instrument.figures if self.complete or isinstance(one, Gauge | Rate | Ratio)]
        whole = totals(figures, self.first, self.last, self.last_at - self.first_at, work)
        found = [observe(metric, value, item=item) for metric, item, value in whole]
        gauges = {figure.metric.name: figure for figure in self.instrument.figures if isinstance(figure, Gauge)}
        for (name, item), track in self._tracks.items():
            if name in gauges:
                found.append(observe(track.metric, fold(gauges[name], track.values), item=item))
        return found


class Sampler:
    """Samples opened instruments. `run` is the loop of its thread; a test may call it with its own clock. `keeps`: see
    Recording."""

    def __init__(self, clock: SamplerClock | None = None, *, keeps: bool = True) -> None:
        self.recordings: list[Recording] = []
        self._keeps = keeps
        self.clock: SamplerClock = clock or MonotonicClock()
        self.began = self.clock.now()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, name: str, instrument: Sampled, reader: Reader) -> Recording:
        """Adds an instrument. One with counters is read at once; one with only gauges waits for its period."""
        recording = Recording(name, instrument, reader, due=self.began + instrument.period, keeps=self._keeps)
        self.recordings.append(recording)
        if counts(instrument):
            recording.sample(self.clock, self.began)
        return recording

    def start(self) -> None:
        """Starts sampling in a separate thread."""
        self._thread = threading.Thread(target=self.run, name="sampler", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Samples the instruments that are due, until `stop`. Periods missed during a slow reading are skipped."""
        while True:
            self.sample_due()
            wait = min((one.due for one in self.recordings if one.off is None), default=float("inf")) - self.clock.now()
            if self.clock.wait(self._stopped, max(0.0, min(wait, 3600.0))):
                return

    def sample_due(self) -> None:
        """Takes one round of readings: of every instrument that is due."""
        for recording in self.recordings:
            now = self.clock.now()
            if recording.off is None and now >= recording.due:
                recording.sample(self.clock, self.began)
                period = recording.instrument.period
                recording.due += period * (1 + max(0.0, now - recording.due) // period)

    def sample_now(self) -> None:
        """Reads every instrument with a period of up to a second; the others wait for their own period, also after a
        server was too busy to answer."""
        for recording in self.recordings:
            period, has_asked = recording.instrument.period, recording.latest or recording.missed
            waits = 1.0 < period < math.inf and has_asked and self.clock.now() < recording.due
            if recording.off is None and not waits:
                recording.sample(self.clock, self.began)
                recording.due = self.clock.now() + period

    def sample_gauges(self) -> None:
        """Reads every instrument that has only gauges."""
        for recording in self.recordings:
            if recording.off is None and not counts(recording.instrument):
                recording.sample(self.clock, self.began)

    def stop(self) -> None:
        """Stops the thread after the current reading."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def final(self, *, asks_server: bool) -> None:
        """Takes the last reading of the instruments that have counters and (do not) query the server."""
        for recording in self.recordings:
            if (
                recording.off is None
                and counts(recording.instrument)
                and recording.instrument.asks_server == asks_server
            ):
                recording.sample(self.clock, self.began, final=True)

    def close(self) -> None:
        """Closes the readers."""
        for recording in self.recordings:
            recording.reader.close()


def counts(instrument: Sampled) -> bool:
    """Whether the instrument has counters, not only gauges."""
    return any(not isinstance(figure, Gauge) for figure in instrument.figures)
