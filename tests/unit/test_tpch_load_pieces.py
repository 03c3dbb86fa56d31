"""A step of a load that runs in a thread: how it ends, fails, and is interrupted."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.errors import OctavoError
from octavo.workloads.tpch.load_pieces import LoadPieces, RunningStep
from octavo.workloads.tpch.loading import LoadStep
from octavo.workloads.tpch.usage import QueryUsage


@dataclass
class Load:
    """Runs the given steps, on a connection without a server."""

    step: Callable[[], object]
    session: Any = None

    def run(self, name: str) -> float:
        self.step()
        return 0.0


def step_of(step: Callable[[], object], session: Any = None) -> RunningStep:
    load: Any = Load(step, session)
    return RunningStep(load, "copy")


def test_a_step_is_waited_for_in_parts() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        step = step_of(lambda: ours.recv(1))
        step.go()
        assert not step.wait(0.01)
        theirs.send(b"x")
        assert step.wait(float("inf"))


@pytest.mark.parametrize("error", [OctavoError("tpchgen-cli failed"), OSError(5, "no pipe"), KeyError("copy")])
def test_a_step_that_fails_has_not_ended(error: Exception) -> None:
    def fail() -> None:
        raise error

    step = step_of(fail)
    step.go()
    with pytest.raises(type(error)):
        step.wait(float("inf"))


def test_a_step_that_waits_for_a_server_that_stands_still_is_broken_off() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        session = SimpleNamespace(connection=SimpleNamespace(pgconn=SimpleNamespace(socket=ours.fileno())))
        step = step_of(lambda: ours.recv(1), session)
        step.go()
        step.cancel()
        assert step.wait(0)
        assert ours.fileno() >= 0  # libpq closes it


def test_a_step_has_the_time_of_its_slices_and_no_share_of_the_device_that_all_cells_share() -> None:
    found: list[tuple[LoadStep, QueryUsage]] = []

    def before() -> None:
        """Reads nothing."""

    def used() -> QueryUsage:
        return QueryUsage(seconds=70.0, cpu=4.0, waited=0.5, device=(0, 0, 900, 10**9, 60_000, 10**6))

    def after(step: LoadStep, used: QueryUsage) -> None:
        found.append((step, used))

    record: Any = SimpleNamespace(before=before, used=used, after=after)
    load: Any = Load(lambda: None, SimpleNamespace(captured=list))
    steps = LoadPieces(load, record, "keys-first")
    begun = steps.begin(("load.copy", 1))
    begun.running.go()
    assert begun.running.wait(float("inf"))
    run = begun.end(10.0)
    assert (run.seconds, steps.enough("load.copy")) == (10.0, False)
    run.keep()
    assert (steps.enough("load.copy"), steps.enough("load.pkey")) == (True, False)
    assert found == [(LoadStep("copy", 10.0, None), QueryUsage(seconds=10.0, cpu=4.0, waited=0.5, device=None))]
