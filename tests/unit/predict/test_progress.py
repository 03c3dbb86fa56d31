"""The number of transactions of a trace by a time, compared with results computed by hand."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.predict.progress import between, progress


def test_commits_of_a_stretch_have_its_accesses_evenly() -> None:
    """300 commits in the first second, which has 2,000 accesses, and 700 in the second one, which has 1,000."""
    known = [(0.0, 0.0), (1e6, 2_000.0), (2e6, 3_000.0)]
    found = progress(1_000.0, [(0.0, 0.0), (1e6, 300.0), (2e6, 1_000.0)], known)
    assert [found.at(many) for many in (0.0, 1_000.0, 2_000.0, 2_500.0, 3_000.0)] == [0.0, 150.0, 300.0, 650.0, 1_000.0]


def test_transactions_that_wrote_nothing_are_as_many_for_each_commit() -> None:
    known = [(0.0, 0.0), (1e6, 2_000.0), (2e6, 3_000.0)]
    found = progress(4_000.0, [(0.0, 0.0), (1e6, 300.0), (2e6, 1_000.0)], known)
    assert found.at(2_000.0) == pytest.approx(1_200.0)


@pytest.mark.parametrize("commits", [[], [(0.0, 0.0), (2e6, 1_000.0)], [(0.0, 0.0), (1e6, 3.0), (2e6, 99.0)]])
def test_without_commits_by_time_transactions_follow_accesses(commits: list[tuple[float, float]]) -> None:
    found = progress(900.0, commits, [(0.0, 0.0), (1e6, 2_000.0), (2e6, 3_000.0)])
    assert found.at(1_000.0) == pytest.approx(300.0)


def test_outside_of_the_stretches_they_follow_accesses() -> None:
    """A part of a trace whose first second is in no interval: a third of the accesses, and of the transactions."""
    known = [(0.0, 0.0), (1e6, 1_000.0), (2e6, 2_000.0), (3e6, 3_000.0)]
    found = progress(900.0, [(1e6, 0.0), (2e6, 100.0), (3e6, 400.0)], known)
    assert [found.at(many) for many in (500.0, 1_000.0, 2_000.0)] == pytest.approx([150.0, 300.0, 450.0])


_STEPS = st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**4)), min_size=1, max_size=20)


def _summed(steps: list[tuple[int, int]]) -> list[tuple[float, float]]:
    found = [(0.0, 0.0)]
    for time, count in steps:
        found.append((found[-1][0] + time, found[-1][1] + count))
    return found


@given(_STEPS, _STEPS, st.floats(1.0, 1e7))
def test_transactions_grow_with_accesses_up_to_all_of_them(
    commits: list[tuple[int, int]], known: list[tuple[int, int]], transactions: float
) -> None:
    of_server = _summed(known)
    found = progress(transactions, _summed(commits), of_server)
    end = max(1.0, of_server[-1][1])
    values = [found.at(end * step / 50) for step in range(51)]
    assert values[0] == 0.0 and values[-1] == pytest.approx(transactions)
    assert all(later >= earlier - 1e-9 * transactions for earlier, later in pairwise(values))


def test_between_points_values_are_linear_and_beyond_them_the_last() -> None:
    points = ((1.0, 10.0), (3.0, 30.0))
    assert [between(points, place) for place in (0.0, 1.0, 2.0, 3.0, 9.0)] == [10.0, 10.0, 20.0, 30.0, 30.0]
