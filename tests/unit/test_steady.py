"""When a server is considered steady, with a fake server that only counts."""

from typing import Any, cast

import pytest

from octavo.errors import OctavoError
from octavo.lab.steady import reach_steady


class CountingServer:
    """Counts WAL according to its windows; a checkpoint completes every given number of windows."""

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

    def reach(self, phase: float = 0.0) -> dict[str, Any]:
        return reach_steady(cast("Any", self), self.window, phase, lambda: self.seconds)


def test_images_that_fall_and_then_stay_are_waited_for() -> None:
    server = CountingServer([900, 400, 200, 100, 52, 50, 51, 50])
    facts = server.reach()
    assert server.windows == 8
    assert (facts["why"], facts["seconds"]) == ("images are few", 16.0)
    assert (facts["images_per_record_at_first"], facts["images_per_record_at_last"]) == (0.9, 0.05)


def test_the_beginning_of_a_slow_fall_is_flat_and_not_steady() -> None:
    """2 % less in each window of 2 s: any four of them are similar, but a trial of a minute would fall by half."""
    slow = [round(900 * 0.98**number) for number in range(200)]
    server = CountingServer(slow)
    server.reach()
    assert slow[server.windows - 1] <= 90
    with_checkpoints = CountingServer(slow, checkpoint_every=30)
    assert with_checkpoints.reach()["why"] == "checkpoint cycles"


def test_a_trial_begins_at_the_phase_of_a_cycle_that_it_is_told() -> None:
    for phase, windows in ((0.0, 90), (0.5, 105), (0.9, 117)):
        server = CountingServer([900, 899] * 100, checkpoint_every=30)
        assert server.reach(phase)["phase_of_cycle"] == phase
        assert server.windows == windows


def test_cycles_that_end_too_soon_for_the_phase_are_not_waited_for_without_end() -> None:
    server = CountingServer([900, 899] * 100, checkpoint_every=1)
    assert server.reach(0.999)["why"] == "checkpoint cycles"


def test_two_whole_checkpoint_cycles_are_enough_though_images_rise_and_fall() -> None:
    server = CountingServer([900, 300, 100] * 20, checkpoint_every=3)
    server.reach()
    assert server.windows == 9  # the current cycle, and two whole ones


def test_a_workload_that_writes_nothing_is_steady_at_once() -> None:
    server = CountingServer([0])
    server.reach()
    assert server.windows == 4


def test_what_never_becomes_steady_is_an_error_that_names_the_settings() -> None:
    server = CountingServer([900, 300, 100] * 1000)
    with pytest.raises(OctavoError, match="max_wal_size"):
        server.reach()
