"""What a round's cells do at the same time."""

import signal
import threading
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.lab.slices.round import each_at_once
from octavo.lab.slices.round_cell import RoundCell


def test_an_interrupt_ends_the_servers_that_others_wait_for() -> None:
    ended = threading.Event()
    signals: list[int] = []

    def send_signal(number: int) -> None:
        signals.append(number)
        ended.set()

    nothing: Any = None
    server: Any = SimpleNamespace(is_alive=lambda: True, process=SimpleNamespace(send_signal=send_signal))
    waiting = RoundCell("waiting", nothing, ExitStack(), server=server)
    interrupted = RoundCell("interrupted", nothing, ExitStack())

    def step(cell: RoundCell) -> None:
        if cell is interrupted:
            raise KeyboardInterrupt
        assert ended.wait(60)

    with pytest.raises(KeyboardInterrupt):
        each_at_once([interrupted, waiting], step)
    assert signals == [signal.SIGQUIT]
