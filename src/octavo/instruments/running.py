"""The instruments of a run: started before each measured part, stopped after it, and off if unavailable."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.rows import DictRow

from octavo.errors import OctavoError
from octavo.instruments.base import NOT_COUNTED, Instrument, NotAskedError, Sampled, Stop, UnavailableError
from octavo.instruments.figures import TrialWork
from octavo.instruments.sampler import Sampler, SamplerClock
from octavo.instruments.target import Rows, Target
from octavo.observation import Metric, Observation, observe
from octavo.postgres import sql
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.leaving import wait_for_clients_to_leave
from octavo.series import Series
from octavo.text import one_line
from octavo.workloads.base import WorkloadResult

_COST = Metric("instrument_cpu_seconds", "CPU time of monitoring, by instrument", "seconds")
_COST_SHARE = Metric("instruments_cpu_share", "CPU time of monitoring, share of the machine", "fraction")
_OWN_METRICS = (_COST, _COST_SHARE)
_BACKEND = "the server, for all of them"

# Instruments that query the server about itself; their figures belong to one server even if several take turns.
OF_THE_SERVER = frozenset({"statements", "relations", "wal_split", "database", "server_io", "wal", "checkpointer"})
# Optional ones of its control group, which does not run while the server is paused, and of its processes.
_OF_ITS_PROCESSES = frozenset({"profile", "thp_mapped"})

_DEVICE = "device"

_NO_WORK = WorkloadResult((), 0.0, 0)
# A query of an instrument takes milliseconds. A query that waits longer than this is dropped.
_STATEMENT_TIMEOUT = "500ms"
# Waiting before the measured run does not affect it, and on a disk that others keep busy reading catalogs takes longer.
_STARTING_TIMEOUT = "60s"


@dataclass(frozen=True, slots=True)
class InstrumentResults:
    """The results of the instruments in a trial. `off` names those that failed during it, or whose last reading lacked
    something, with the reason; `missed` counts refused readings of each."""

    observations: tuple[Observation, ...]
    series: tuple[Series, ...]
    off: Mapping[str, str] = field(default_factory=dict[str, str])
    missed: Mapping[str, int] = field(default_factory=dict[str, int])


class InstrumentSet:
    """All instruments, for the trials of one run. One that is unavailable here is reported once, by `notice`, and stays
    off."""

    def __init__(
        self,
        instruments: Mapping[str, Sampled | Instrument],
        notice: Callable[[str], None],
        clock: SamplerClock | None = None,
    ) -> None:
        self._instruments = dict(instruments)
        self._notice = notice
        self._clock = clock

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of the observations and of the series."""
        found = list(_OWN_METRICS)
        for instrument in self._instruments.values():
            if isinstance(instrument, Sampled):
                found += [figure.metric for figure in instrument.figures]
            else:
                found += instrument.metrics
        return tuple(found)

    def start(
        self, server: Server, *, running: SamplerClock | None = None, own_device: bool = False
    ) -> "RunningInstruments":
        """Starts the available instruments, just before the measured run.

        With a clock that stops while the server is paused (`running`), only instruments that query the server itself
        are read, before and after, and rates use that clock, because machine-wide figures include other cells. The
        device is read too if only the server uses it (`own_device`), and so is a requested profile, which the caller
        knows to cover only the server, and by `sample_gauges` its memory in huge pages. The instruments keep one
        connection to the server, of their own; the server's kept one is closed.
        """
        stops: dict[str, Stop] = {}
        chosen = {
            name: instrument
            for name, instrument in self._instruments.items()
            if running is None or name in OF_THE_SERVER | _OF_ITS_PROCESSES or (own_device and name == _DEVICE)
        }
        try:
            for name, instrument in chosen.items():
                if not isinstance(instrument, Sampled):
                    try:
                        stops[name] = instrument.start(server)
                    except UnavailableError as error:
                        self._switch_off(name, error)
            server.disconnect()
            target, connection = _connected(server, _STARTING_TIMEOUT)
            target = replace(target, paused=running is not None)
        except BaseException:  # a profile would go on through later trials
            _stop_all(stops, _NO_WORK, {})
            raise
        sampler = Sampler(running or self._clock)
        watching = RunningInstruments(target, connection.close, sampler, stops)
        try:
            for name, instrument in chosen.items():
                if isinstance(instrument, Sampled):
                    try:
                        sampler.add(name, instrument, instrument.open(target))
                    except UnavailableError as error:
                        self._switch_off(name, error)
            _limit(connection, _STATEMENT_TIMEOUT)
            if running is None:
                sampler.start()
        except BaseException:
            watching.close()
            raise
        return watching

    def _switch_off(self, name: str, reason: UnavailableError) -> None:
        del self._instruments[name]
        if not isinstance(reason, NotAskedError):
            self._notice(f"the instrument {name} is off: {reason}")


class RunningInstruments:
    """The running instruments of one trial; a context manager that stops them however the trial ends."""

    def __init__(
        self, target: Target, disconnect: Callable[[], None], sampler: Sampler, stops: Mapping[str, Stop]
    ) -> None:
        self._target = target
        self._disconnect = disconnect
        self._sampler = sampler
        self._stops = dict(stops)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sample_gauges(self) -> None:
        """Reads the instruments that have only gauges, while the clients are connected; for servers that take turns,
        whose instruments are not read meanwhile."""
        self._sampler.sample_gauges()

    def finish(self, result: WorkloadResult) -> InstrumentResults:
        """Takes the last readings, just after the measured run, and ends the observation."""
        sampler = self._sampler
        sampler.stop()
        sampler.final(asks_server=False)
        seconds = sampler.clock.now() - sampler.began
        off: dict[str, str] = {}
        try:
            if remaining := wait_for_clients_to_leave(self._target.query):
                off["the server"] = (
                    f"clients that are still connected have not reported all their statistics: {remaining}"
                )
        except (psycopg.Error, OctavoError) as error:
            off["the server"] = one_line(error)
        sampler.final(asks_server=True)
        observations = _costs(sampler, self._target, seconds)
        self._disconnect()
        work = TrialWork(result.transactions, result.client_cpu_seconds)
        for recording in sampler.recordings:
            observations += recording.observations(work)
            if reason := recording.off or recording.reader.lacking():
                off[recording.name] = reason
        observations += _stop_all(self._stops, result, off)
        series = [series for recording in sampler.recordings for series in recording.series()]
        missed = {recording.name: recording.missed for recording in sampler.recordings if recording.missed}
        return InstrumentResults(tuple(observations), tuple(series), off, missed)

    def close(self) -> None:
        """Stops the remaining instruments: none after `finish`, all of them if the trial was aborted."""
        self._sampler.stop()
        self._disconnect()
        _stop_all(self._stops, _NO_WORK, {})
        self._sampler.close()


def _stop_all(stops: dict[str, Stop], result: WorkloadResult, off: dict[str, str]) -> list[Observation]:
    """Ends the observations that read before and after the run, each once; `off` gets the errors, by name."""
    found: list[Observation] = []
    while stops:
        name = next(iter(stops))
        stop = stops.pop(name)
        try:
            found += stop(result)
        except (UnavailableError, OctavoError, psycopg.Error, OSError) as error:
            off[name] = one_line(error)
    return found


def target_of(server: Server) -> tuple[Target, Callable[[], None]]:
    """One of Octavo's servers as seen by instruments during a run, and a function that closes their connection to
    it."""
    target, connection = _connected(server, _STATEMENT_TIMEOUT)
    return target, connection.close


def _connected(server: Server, timeout: str) -> tuple[Target, psycopg.Connection[DictRow]]:
    """The server as seen by instruments, and their connection to it, with this statement timeout."""
    connection = server.connect(DATABASE)
    connection.execute(NOT_COUNTED)
    connection.execute(b"SET default_transaction_read_only = on")
    # A reading that times out, or a workload's own restart of the server, is not an error that makes the trial
    # doubtful.
    connection.execute(b"SET log_min_messages = panic")
    _limit(connection, timeout)
    version = connection.info.server_version

    def query(name: str) -> Rows:
        return connection.execute(sql.load(name, version).encode()).fetchall()

    return Target(query, version, server.directory, server.process.pid, connection.info.backend_pid), connection


def _limit(connection: psycopg.Connection[DictRow], timeout: str) -> None:
    connection.execute(f"SET statement_timeout = '{timeout}'".encode())


def _costs(sampler: Sampler, target: Target, seconds: float) -> list[Observation]:
    """The monitoring overhead: of the sampler's thread by instrument, and of the backend that served it."""
    costs: dict[str, float] = {recording.name: recording.cpu_seconds for recording in sampler.recordings}
    backend = backend_cpu_seconds(target)
    if backend is not None:
        costs[_BACKEND] = backend
    machine = seconds * (os.cpu_count() or 1)
    found = [observe(_COST, cost, item=name) for name, cost in costs.items()]
    if machine > 0:
        found.append(observe(_COST_SHARE, sum(costs.values()) / machine))
    return found


def backend_cpu_seconds(target: Target) -> float | None:
    """CPU seconds of the backend of our connection since it started; None if it is not visible."""
    if target.backend is None:
        return None
    try:
        return int(Path(target.proc, str(target.backend), "schedstat").read_bytes().split()[0]) * 1e-9
    except (OSError, ValueError, IndexError):
        return None


def facts_of(seen: InstrumentResults) -> dict[str, Any]:
    """A trial's facts about its instruments; empty if there were no problems."""
    found = {"instruments_off": dict(seen.off), "instruments_missed": dict(seen.missed)}
    return {name: value for name, value in found.items() if value}
