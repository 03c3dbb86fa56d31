"""Ratios of several hosts: equal to one host's if there is only one, and with correct coverage of the intervals."""

import warnings

import numpy as np
import pytest

from octavo.analysis.cell_means import cell_means
from octavo.analysis.contrasts import contrasts
from octavo.analysis.host_contrasts import FEWEST_HOSTS, host_contrasts
from octavo.analysis.interval import critical_value
from octavo.analysis.layout import Layout


def fleet(
    source: np.random.Generator,
    hosts: int,
    *,
    of_hosts: float = 0.0,
    of_load: float = 0.02,
    of_trial: float = 0.01,
    loads: int = 2,
    rounds: int = 4,
    cells: int = 3,
    sent: bool = False,
) -> Layout:
    """Cells that do not differ, except on each host by a deviation of its own; the baseline is the first. Loads are
    made on each host, or `sent` by the first of them."""
    shifts = source.normal(0, of_hosts, (hosts, cells))
    shifts[:, 0] = 0
    built = source.normal(0, of_load, (hosts, cells, loads))
    if sent:
        built[:] = built[0]
    columns = [(number, host) for number in range(rounds) for host in range(hosts)]
    values = np.array(
        [
            [
                shifts[host, cell]
                + built[host, cell, number % loads]
                + source.normal(0, of_trial)
                + 3.0 * host
                + number
                for number, host in columns
            ]
            for cell in range(cells)
        ]
    )
    used = np.array([host * loads + number % loads for number, host in columns])
    return Layout(
        values,
        np.tile(used, (cells, 1)),
        np.arange(cells),
        np.array([number + 1 for number, _ in columns]),
        0,
        hosts=np.array([host for _, host in columns]),
    )


def test_one_host_is_as_if_there_were_no_fleet() -> None:
    layout = fleet(np.random.default_rng(1), 1, loads=3, rounds=6, cells=4)
    apart = host_contrasts(layout)
    plain = contrasts(Layout(layout.values, layout.loads, layout.datasets, layout.rounds, layout.baseline))
    for name in ("centre", "variance", "of_loads"):
        assert np.allclose(getattr(apart, name)[1:], getattr(plain, name)[1:])
    assert (apart.freedom[1:] == plain.freedom[1:]).all()
    assert (apart.conditional == plain.conditional).all()


def test_hosts_that_differ_by_themselves_do_not_matter() -> None:
    layout = fleet(np.random.default_rng(2), 3, of_load=0.0, of_trial=1e-6)
    assert np.allclose(contrasts(layout).centre[1:], 0, atol=1e-4)


def test_where_hosts_differ_their_deviation_is_told() -> None:
    found = contrasts(fleet(np.random.default_rng(3), 40, of_hosts=0.1, of_load=0.0))
    assert found.of_hosts is not None
    assert np.sqrt(found.of_hosts[1:]) == pytest.approx(0.1, rel=0.4)
    alike = contrasts(fleet(np.random.default_rng(3), 40, of_hosts=0.0, of_load=0.0))
    assert alike.of_hosts is not None
    assert (alike.of_hosts[1:] < 0.01**2).all()


@pytest.mark.parametrize(("hosts", "general"), [(2, False), (FEWEST_HOSTS - 1, False), (FEWEST_HOSTS, True)])
def test_from_five_hosts_on_it_speaks_of_hosts_like_these(hosts: int, general: bool) -> None:
    found = contrasts(fleet(np.random.default_rng(4), hosts))
    assert found.hosts is not None
    assert found.hosts_in_general is not None
    assert (found.hosts[1:] == hosts).all()
    assert (found.hosts_in_general[1:] == general).all()
    if general:
        assert (found.freedom[1:] == hosts - 1).all()
        assert not found.conditional[1:].any()


@pytest.mark.parametrize(
    ("hosts", "of_hosts"),
    [(3, 0.0), (6, 0.0), (6, 0.05), (12, 0.05)],
)
def test_intervals_hold(hosts: int, of_hosts: float) -> None:
    """95 of 100 intervals contain the true value; of 400 cells, at least 92.5 % if 95 % do."""
    assert share_that_holds(hosts, of_hosts=of_hosts) >= 0.925


def test_loads_that_hosts_share_would_count_for_more_than_they_are() -> None:
    """The reason why each host makes its own (docs/fleet.md), and a host with copies of another's is excluded."""
    assert [share_that_holds(hosts, sent=True) < 0.90 for hosts in (2, 3, 6, 12)] == [True] * 4


def share_that_holds(hosts: int, *, of_hosts: float = 0.0, sent: bool = False) -> float:
    """The share of the 95 % intervals of 400 cells that contain the true value."""
    source = np.random.default_rng(5)
    held = total = 0
    for _ in range(200):
        found = contrasts(fleet(source, hosts, of_hosts=of_hosts, sent=sent))
        for row in (1, 2):
            width = critical_value(1, int(found.freedom[row]), 0.95) * np.sqrt(found.variance[row])
            held += abs(found.centre[row]) <= width
            total += 1
    return held / total


def test_a_host_that_left_early_counts_with_what_it_has() -> None:
    layout = fleet(np.random.default_rng(6), 3, loads=1)
    values = layout.values.copy()
    values[:, (layout.hosts == 2) & (layout.rounds > 1)] = np.nan
    found = contrasts(Layout(values, layout.loads, layout.datasets, layout.rounds, 0, hosts=layout.hosts))
    assert found.hosts is not None
    assert (found.hosts[1:] == 3).all()
    assert np.isfinite(found.variance[1:]).all()


def test_a_host_that_measured_fewer_rounds_makes_no_cell_faster_or_slower() -> None:
    """Hosts differ twentyfold here, and runs that are compared need not have as many rounds of each."""
    layout = fleet(np.random.default_rng(7), 3, loads=4)
    values = layout.values - layout.rounds  # the fleet's rounds have a trend
    left = np.where((layout.hosts == 2) & (layout.rounds > 2), np.nan, values)
    whole, early = (
        cell_means(Layout(table, layout.loads, layout.datasets, layout.rounds, 0, hosts=layout.hosts))
        for table in (values, left)
    )
    assert np.allclose(early.centre, whole.centre, atol=0.05)
    assert np.isfinite(early.variance).all()


def test_a_host_without_any_value_is_as_if_it_were_not_there() -> None:
    layout = fleet(np.random.default_rng(8), 3, loads=4)
    absent = np.where(layout.hosts == 2, np.nan, layout.values)
    with warnings.catch_warnings(action="error"):  # numpy's, of the mean of nothing
        found = cell_means(Layout(absent, layout.loads, layout.datasets, layout.rounds, 0, hosts=layout.hosts))
    assert found.centre == pytest.approx(np.nanmean(absent, axis=1))
    assert np.isfinite(found.variance).all()
