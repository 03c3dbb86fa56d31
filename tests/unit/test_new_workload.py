"""Mistakes in a new workload are reported in one line."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from octavo import workloads
from octavo.errors import OctavoError, UsageError
from octavo.lab.declared_metrics import no_primary, require_numbers, undeclared
from octavo.observation import Metric, Observation, observe


@pytest.mark.parametrize(
    ("module", "message"),
    [("octavo.workloads.nowhere", "there is no module octavo.workloads.nowhere"), ("octavo.units", "has no WORKLOAD")],
)
def test_a_line_in_the_table_that_leads_nowhere(module: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(workloads.WORKLOADS, "locks", module)
    with pytest.raises(UsageError, match=f"workload locks: .*{message}"):
        workloads.find("locks")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_figure_that_is_not_a_number(value: float) -> None:
    require_numbers([Observation("locks_per_second", 0.0, "1/s")])
    with pytest.raises(OctavoError, match="locks_per_second is not a number"):
        require_numbers([Observation("locks_per_second", value, "1/s")])


RATE = Metric("rows_per_second", "rows counted a second", "1/s", "higher")
GIVEN_UP = Metric("given_up", "counts that were given up", "1", "lower", "limit")


def _nothing(*_: object) -> None:
    """What a client would do."""


class CountRows:
    """A newcomer's workload; only the parts that are used here."""

    factors = ()
    metrics = (RATE, GIVEN_UP)

    def __getattr__(self, name: str) -> Any:
        if name in ("client", "only_reads"):  # RunsInTurns
            return _nothing
        raise AttributeError(name)


class InSlices(CountRows):
    """The same, with its own figures in slices."""

    def of_slices(self, *_: object) -> Sequence[Observation]:
        return ()


NEWCOMER: Any = CountRows()
IN_SLICES: Any = InSlices()


def test_a_metric_that_is_not_declared() -> None:
    rate = observe(RATE, 5.0)
    assert undeclared(NEWCOMER, [rate]) is None
    wrong = undeclared(NEWCOMER, [rate, Observation("pages", 1.0, "1")])
    assert wrong == f"CountRows ({__file__}) returned pages, which is not declared; add it to metrics"


def test_a_unit_that_is_not_the_declared_one() -> None:
    wrong = undeclared(NEWCOMER, [Observation("rows_per_second", 5.0, "kB/s")])
    assert wrong is not None and "returned rows_per_second in 'kB/s', but declares '1/s'" in wrong


def test_a_trial_without_the_first_metric() -> None:
    assert no_primary(NEWCOMER, [observe(RATE, 5.0, item="q1")]) is None
    missing = no_primary(NEWCOMER, [])
    assert missing is not None and "test_new_workload.py) returned no rows_per_second, its first metric" in missing


def test_a_trial_without_the_plans_metric() -> None:
    found = [observe(RATE, 5.0)]
    assert no_primary(NEWCOMER, found, RATE.name) is None
    assert no_primary(NEWCOMER, found, "p99") == "the trial has no p99, which is the plan's metric; set another metric"
    assert str(no_primary(NEWCOMER, found, "p99", slices=True)).endswith('or interleave = "trials"')


def test_a_metric_that_warns_says_why_there_is_no_first_metric() -> None:
    assert no_primary(NEWCOMER, [observe(GIVEN_UP, 1.0)]) is None


def test_a_trial_in_slices_without_of_slices() -> None:
    missing = no_primary(NEWCOMER, [Observation("tps", 5.0, "1/s")], slices=True)
    assert missing is not None and "has no of_slices" in missing and "rows_per_second" in missing
    missing = no_primary(IN_SLICES, [Observation("tps", 5.0, "1/s")], slices=True)
    assert missing is not None and "returned no rows_per_second" in missing
