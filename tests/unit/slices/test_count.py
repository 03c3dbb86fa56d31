"""Which transactions belong to a slice, and which turns are dropped, on synthetic logs."""

import math

import pytest

from octavo.lab.slices.count import DisturbanceLimits, Slice, SliceCounts, disturbance, rates_by_turn
from octavo.lab.slices.result import result_of, series_of
from octavo.workload_support.pgbench_turns import parse

STRICT = DisturbanceLimits(steal=0.02, foreign=0.05, tick_seconds=0.005)


def two_slices() -> SliceCounts:
    tally = SliceCounts()
    tally.add_slice(Slice(0, 10.0, 11.0))
    tally.add_slice(Slice(1, 20.0, 21.0))
    return tally


def test_a_transaction_counts_where_it_ended_and_the_first_tenth_is_left_out() -> None:
    tally = two_slices()
    tally.add([(20.5, 0.1), (9.9, 0.1), (10.05, 0.01), (10.1, 0.01), (10.999, 0.01), (11.0, 0.01), (15.0, 0.01)])
    assert tally.counts == [2, 1]
    assert tally.all_transactions == 7
    assert tally.rate(0) == pytest.approx(2 / 0.9)


def test_a_transaction_across_a_border_counts_and_has_no_latency() -> None:
    tally = two_slices()
    tally.add([(10.5, 0.2), (20.5, 9.6)])
    assert tally.counts == [1, 1]
    assert tally.latencies({0, 1}) == [0.2]


def test_a_dropped_turn_has_no_part_in_any_number() -> None:
    tally = two_slices()
    tally.add([(10.5, 0.2), (20.3, 0.1), (20.5, 0.1)])
    result = result_of(tally, {1}, asked=1.0, cpu_seconds=0.5, problems=(), output="")
    values = {one.metric: one.value for one in result.observations}
    assert values["tps"] == pytest.approx(2 / 0.9)
    assert values["latency_avg_ms"] == pytest.approx(100.0)
    assert (result.transactions, result.seconds) == (2, 1.0)
    assert series_of(tally, {1}).seconds == (11.0,)


def test_without_a_turn_there_is_no_rate_and_no_latency() -> None:
    result = result_of(SliceCounts(), set(), asked=1.0, cpu_seconds=0.0, problems=(), output="")
    assert {one.metric: one.value for one in result.observations} == {"tps": 0.0, "transactions": 0}


def test_what_hits_one_slice_drops_the_turn_and_what_hits_all_alike_does_not() -> None:
    quiet, hit = Slice(0, 0.0, 0.1), Slice(0, 0.1, 0.2, steal=0.10)
    assert disturbance([quiet, quiet], STRICT) <= 1
    assert disturbance([quiet, hit], STRICT) > 1
    assert disturbance([hit, hit], STRICT) <= 1
    assert disturbance([quiet, Slice(0, 0.1, 0.2, foreign=0.11)], STRICT) > 1


def test_a_tick_of_one_cpu_drops_nothing() -> None:
    quiet, tick = Slice(0, 0.0, 0.1), Slice(0, 0.1, 0.2, steal=0.05)
    assert disturbance([quiet, tick], STRICT) <= 1
    longer = Slice(0, 0.0, 10.0), Slice(0, 10.0, 20.0, steal=0.05)
    assert disturbance(longer, STRICT) > 1


def test_without_any_allowance_any_difference_disturbs() -> None:
    nothing = DisturbanceLimits(steal=0.0, foreign=0.05, tick_seconds=0.0)
    assert disturbance([Slice(0, 0.0, 0.1), Slice(0, 0.1, 0.2, steal=0.001)], nothing) == float("inf")
    assert disturbance([Slice(0, 0.0, 0.1), Slice(0, 0.1, 0.2)], nothing) == 0


def test_rates_are_by_turn_with_the_cells_in_their_order() -> None:
    first, second = two_slices(), two_slices()
    first.add([(10.5, 0.1)])
    second.add([(20.5, 0.1), (20.6, 0.1)])
    rates = rates_by_turn([first, second], {0, 1})
    assert [[round(rate * 0.9) for rate in row] for row in rates] == [[1, 0], [0, 2]]


def test_pgbench_log_lines_become_moments_of_the_clock_that_is_never_set() -> None:
    lines = ["0 1 2500 0 1000 250000", "1 7 failed 0 1000 300000", "0 2 1", "1 8 skipped 0 1000 300000"]
    ((ended, latency),) = parse(lines, 990.0)
    assert math.isclose(ended, 10.25)
    assert latency == 0.0025
