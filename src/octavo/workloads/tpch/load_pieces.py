"""A load in slices: a piece is a step, which a thread runs while its server and the generator may be paused."""

import math
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from octavo.postgres.cluster import Server
from octavo.workloads.base import BegunPiece, Levels, Piece, PieceRun, WorkloadResult
from octavo.workloads.tpch import loading
from octavo.workloads.tpch.load_run import LoadRecord
from octavo.workloads.tpch.loading import Loading, LoadStep, StepWork

_ENDING_SECONDS = 10.0


@dataclass(slots=True)
class RunningStep:
    """A step that the caller can wait for in parts. `cpu` counts this process's CPU seconds for it, `work` is set when
    it has ended."""

    load: Loading
    name: str
    cpu: float = 0.0
    work: StepWork = field(default_factory=StepWork)
    _error: BaseException | None = None
    _thread: threading.Thread | None = None

    def go(self) -> None:
        """Starts the step."""
        self._thread = threading.Thread(target=self._run, name=f"load.{self.name}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Waits at most so many seconds. Returns whether it has ended. Raises the step's error."""
        assert self._thread is not None
        self._thread.join(None if math.isinf(seconds) else seconds)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Closes the connection: a step has no timeout, but its trial may end before it. The server may be paused
        meanwhile, so no cancel request is sent."""
        if self._thread is None or not self._thread.is_alive():
            return
        ours = socket.socket(fileno=self.load.session.connection.pgconn.socket)
        with suppress(OSError):  # the server is gone
            ours.shutdown(socket.SHUT_RDWR)
        ours.detach()  # it belongs to libpq
        self._thread.join(_ENDING_SECONDS)

    def _run(self) -> None:
        began = time.thread_time()
        try:
            self.work = self.load.run(self.name)
        except BaseException as error:  # any error: a failed step must not seem to be running
            self._error = error
        self.cpu = time.thread_time() - began


@dataclass(slots=True)
class LoadPieces:
    """The steps of a load, each of which is run once."""

    load: Loading
    record: LoadRecord
    order: str
    done: list[str] = field(default_factory=list[str])
    cpu: float = 0.0
    running: RunningStep | None = None
    can_repeat: bool = False

    @property
    def items(self) -> list[str]:
        """The steps, in the order of the levels."""
        return [f"load.{name}" for name in loading.ORDERS[self.order]]

    def enough(self, item: str) -> bool:
        """Whether the step has been run."""
        return item in self.done

    def begin(self, piece: Piece) -> BegunPiece:
        """Prepares a step, after those before it have ended. Raises OctavoError or psycopg.Error."""
        item, _ = piece
        name = item.removeprefix("load.")
        self.record.before()
        self.running = running = RunningStep(self.load, name)

        def end(seconds: float) -> PieceRun:
            self.running = None
            self.cpu += running.cpu
            # The device, which all cells share, also writes the data that paused cells have dirtied.
            used = replace(self.record.used(), seconds=seconds, device=None)
            # The time that COPY waited for the generator would include the pauses.
            plans = tuple(self.load.session.captured())
            self.record.after(LoadStep(name, seconds, None, plans, running.work.processes), used)
            return PieceRun(seconds, lambda: self.done.append(item))

        return BegunPiece(running, math.inf, end)

    def result(self) -> WorkloadResult:
        """The result of all steps."""
        return self.record.result(self.record.seconds, self.cpu)


@contextmanager
def pieces(server: Server, levels: Levels) -> Generator[LoadPieces, None, None]:
    """Yields the steps of a load that has not begun. Raises psycopg.Error."""
    with loading.opened(server, levels, levels["explain"]) as load:
        steps = LoadPieces(load, LoadRecord(server), levels["order"])
        try:
            yield steps
        finally:
            if steps.running is not None:
                steps.running.cancel()
