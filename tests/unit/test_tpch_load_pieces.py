"""A step of a load that runs in a thread: how it ends, fails, and is broken off."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.errors import OctavoError
from octavo.workloads.tpch.load_pieces import RunningStep


@dataclass
class Load:
    """Runs what it is given, on a connection to nobody."""

    step: Callable[[], object]
    server: Any
    session: Any = None

    def run(self, name: str) -> float:
        self.step()
        return 0.0


def step_of(step: Callable[[], object], path: Path, session: Any = None) -> RunningStep:
    load: Any = Load(step, SimpleNamespace(directory=path), session)
    return RunningStep(load, "copy")


def test_a_step_is_waited_for_in_parts(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        step = step_of(lambda: ours.recv(1), tmp_path)
        step.go()
        assert not step.wait(0.01)
        theirs.send(b"x")
        assert step.wait(float("inf"))


@pytest.mark.parametrize("error", [OctavoError("tpchgen-cli failed"), OSError(5, "no pipe"), KeyError("copy")])
def test_a_step_that_fails_has_not_ended(tmp_path: Path, error: Exception) -> None:
    def fail() -> None:
        raise error

    step = step_of(fail, tmp_path)
    step.go()
    with pytest.raises(type(error)):
        step.wait(float("inf"))


def test_a_step_that_waits_for_a_server_that_stands_still_is_broken_off(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        session = SimpleNamespace(connection=SimpleNamespace(pgconn=SimpleNamespace(socket=ours.fileno())))
        step = step_of(lambda: ours.recv(1), tmp_path, session)
        step.go()
        step.cancel()
        assert step.wait(0)
        assert ours.fileno() >= 0  # libpq closes it
