"""Another data block is advised for a gain that is certain and pays for a dump and restore."""

from types import SimpleNamespace
from typing import Any

import pytest

from octavo.predict import advice

kB, MB, GB = 1024, 1024**2, 1024**3
Ends = tuple[float, float, float]
ONE: Ends = (1.0, 1.0, 1.0)


@pytest.fixture(autouse=True)
def without_cheaper_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are simulated."""

    def none(*_: object) -> list[dict[str, Any]]:
        return []

    monkeypatch.setattr(advice, "_cheaper", none)


def size(block: int, *, buffers: int = 64 * MB, **figures: Ends) -> dict[str, Any]:
    """A predicted size; a figure is its value and the ends of its interval."""
    names = ("tps_ratio", "device_read_bytes_per_transaction", "read_bytes_per_transaction")
    found: dict[str, Any] = dict.fromkeys(names) | {
        name: {"value": value, "low": low, "high": high, "because": "fill"}
        for name, (value, low, high) in figures.items()
    }
    return {"data_block_bytes": block, "shared_buffers_bytes": buffers, "wal_block_bytes": 8 * kB, "figures": found,
            "bottleneck": None}  # fmt: skip


def recommended(*sizes: dict[str, Any]) -> dict[str, Any]:
    """For a trace of 1 GB in 8 kB blocks."""
    trace: Any = SimpleNamespace(data_block=8 * kB, relations=[{"blocks": GB // (8 * kB)}])
    nothing: Any = None
    return advice.recommend(trace, {"sizes": sizes}, nothing, {}, nothing, nothing)


@pytest.mark.parametrize(
    ("small", "is_settled", "words"),
    [
        ((1.50, 1.20, 1.90), True, "4 kB data blocks are predicted to give × 1.50, 95 % interval 1.20 to 1.90"),
        ((1.50, 0.98, 2.10), False, "Stay at 8 kB: 4 kB is predicted to be best"),
        ((1.04, 1.02, 1.06), False, "but the gain is too small or uncertain"),
        ((0.90, 0.80, 0.95), False, "Stay at 8 kB: no other data block"),
    ],
)
def test_a_gain_is_advised_that_is_certain_and_large_enough(small: Ends, is_settled: bool, words: str) -> None:
    """Of the first requested shared_buffers: with others 4 kB may gain more."""
    found = recommended(
        size(4 * kB, tps_ratio=small), size(8 * kB, tps_ratio=ONE), size(4 * kB, buffers=GB, tps_ratio=(9.0, 8.0, 10.0))
    )
    assert found["is_settled"] is is_settled
    assert words in found["sentence"]


@pytest.mark.parametrize(("most", "is_settled"), [(80.0, True), (95.0, False)])
def test_where_speed_is_unknown_fewer_bytes_are_a_gain(most: float, is_settled: bool) -> None:
    """At the ends of its interval, more than 4 kB are read against less than 8 kB, and the reverse."""
    found = recommended(
        size(4 * kB, device_read_bytes_per_transaction=(50.0, 40.0, most)),
        size(8 * kB, device_read_bytes_per_transaction=(100.0, 90.0, 110.0)),
    )
    assert found["by"] == "device_read_bytes_per_transaction"
    assert found["gain"] == {"value": 2.0, "low": 90 / most, "high": 110 / 40}
    assert found["is_settled"] is is_settled


def test_a_migration_takes_as_long_as_at_the_published_rates() -> None:
    cost = recommended(size(4 * kB, tps_ratio=ONE), size(8 * kB, tps_ratio=ONE))["cost"]
    assert (cost["seconds_low"], cost["seconds_high"]) == (1024 / 13, 1024 / 10)
