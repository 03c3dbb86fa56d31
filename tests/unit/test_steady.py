"""When a server is taken for steady, on a server that only counts."""

from typing import Any, cast

import pytest

from octavo.errors import OctavoError
from octavo.lab.steady import reach_steady


class CountingServer:
    """Counts WAL as its windows tell it; a checkpoint completes every so many windows."""

    def __init__(self, images: list[int], checkpoint_every: int = 1000) -> None:
        self.images = images
        self.checkpoint_every = checkpoint_every
        self.records = 0
        self.total = 0
        self.windows = 0
        self.seconds = 0.0

    def query(self, name: str) -> list[dict[str, int]]:
        if name == "checkpoints":
            return [{"checkpoints": self.windows // self.checkpoint_every}]
        return [{"records": self.records, "full_page_images": self.total}]

    def disconnect(self) -> None:
        pass

    def window(self, number: int) -> None:
        assert number == self.windows
        self.records += 1000
        self.total += self.images[min(number, len(self.images) - 1)]
        self.windows += 1
        self.seconds += 2.0

    def reach(self) -> float:
        return reach_steady(cast("Any", self), self.window, lambda: self.seconds)


def test_images_that_fall_and_then_stay_are_waited_for() -> None:
    server = CountingServer([900, 400, 200, 100, 52, 50, 51, 50])
    assert server.reach() == 16.0
    assert server.windows == 8


def test_two_whole_checkpoint_cycles_are_enough_though_images_rise_and_fall() -> None:
    server = CountingServer([900, 300, 100] * 20, checkpoint_every=3)
    server.reach()
    assert server.windows == 9  # the cycle that was under way, and two whole ones


def test_a_workload_that_writes_nothing_is_steady_at_once() -> None:
    server = CountingServer([0])
    server.reach()
    assert server.windows == 4


def test_what_never_becomes_steady_is_an_error_that_names_the_settings() -> None:
    server = CountingServer([900, 300, 100] * 1000)
    with pytest.raises(OctavoError, match="max_wal_size"):
        server.reach()
