"""The credits of the volumes that are enforced, and the instrument that reads them."""

import os
from pathlib import Path

import pytest

from octavo.host.block_limit import DeviceLimits
from octavo.instruments.base import UnavailableError
from octavo.instruments.burst_balance import INSTRUMENT
from octavo.instruments.target import Target
from octavo.knobs.burst_balance import credits_under, published
from octavo.knobs.credits import DeviceTotals
from octavo.knobs.enforcer import Enforcer
from octavo.knobs.volume_types import parse_device


def number_of(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_a_volume_s_credits_are_told_while_it_is_enforced(tmp_path: Path) -> None:
    assert credits_under(tmp_path) is None
    with published(number_of(tmp_path), lambda: 12.0):
        assert credits_under(tmp_path) == 12.0
    with published("0:0", lambda: 3.0):
        assert credits_under(tmp_path) is None
    assert credits_under(tmp_path) is None


class Unlimited:
    """Accepts any limit."""

    def limit(self, reads: DeviceLimits, writes: DeviceLimits) -> None:
        pass


def test_the_enforcer_s_credits_fall_by_what_was_served_above_the_baseline() -> None:
    volume = parse_device("gp2:200,credits=12000")
    assert volume is not None
    times, served = iter([0.0, 2.0, 12.0]), iter([DeviceTotals(), DeviceTotals(reads=6000), DeviceTotals(reads=30_000)])
    enforcer = Enforcer(volume, Unlimited(), lambda: next(served), lambda: next(times))  # type: ignore[arg-type]
    enforcer.begin()
    assert enforcer.credits() == 12_000
    enforcer.step()
    assert enforcer.credits() == 12_000 - (6000 - 2 * 600)
    enforcer.step()
    assert enforcer.credits() == 0  # a debt counts as none


def target_in(directory: Path | None) -> Target:
    return Target(lambda _: [], 180000, directory, None, None, no_directory="not here")


def test_only_a_volume_with_credits_has_a_series(tmp_path: Path) -> None:
    reader = INSTRUMENT.open(target_in(tmp_path))
    assert reader.read() == {}
    with published(number_of(tmp_path), lambda: 7.0):
        assert reader.read() == {None: {"credits": 7.0}}
    with pytest.raises(UnavailableError, match="not here"):
        INSTRUMENT.open(target_in(None))
