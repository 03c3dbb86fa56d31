"""Critical values compared with the published tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from octavo.analysis.dunnett import dunnett
from octavo.analysis.interval import critical_value

# C. W. Dunnett, New tables for multiple comparisons with a control, Biometrics 20, 1964: two-sided, equal sizes.
AT_95 = {
    5: {1: 2.57, 2: 3.03, 3: 3.29, 4: 3.48, 5: 3.62, 9: 3.97},
    10: {1: 2.23, 2: 2.57, 3: 2.76, 4: 2.89, 5: 2.99, 9: 3.24},
    20: {1: 2.09, 2: 2.38, 3: 2.54, 4: 2.65, 5: 2.73, 9: 2.95},
    10**6: {1: 1.96, 2: 2.21, 3: 2.35, 4: 2.44, 5: 2.51, 9: 2.69},
}
AT_99 = {
    10: {1: 3.17, 2: 3.53, 3: 3.74, 4: 3.88, 5: 3.99, 9: 4.28},
    20: {1: 2.85, 2: 3.13, 3: 3.29, 4: 3.40, 5: 3.48, 9: 3.69},
}


@pytest.mark.parametrize(("confidence", "table"), [(0.95, AT_95), (0.99, AT_99)])
def test_as_the_tables_have_it(confidence: float, table: dict[int, dict[int, float]]) -> None:
    for freedom, row in table.items():
        for comparisons, value in row.items():
            assert dunnett(comparisons, freedom, confidence) == pytest.approx(value, abs=0.0051)


@pytest.mark.parametrize(("comparisons", "freedom"), [(0, 5), (1, 0)])
def test_without_comparisons_or_freedom_there_is_none(comparisons: int, freedom: int) -> None:
    with pytest.raises(ValueError, match="no critical value"):
        dunnett(comparisons, freedom, 0.95)


@given(comparisons=st.integers(1, 41), freedom=st.integers(1, 500))
def test_between_students_t_and_bonferroni(comparisons: int, freedom: int) -> None:
    found = dunnett(comparisons, freedom, 0.95)
    alone, all_apart = (-float(stdtrit(freedom, 0.025 / count)) for count in (1, comparisons))
    assert alone - 1e-6 <= found <= all_apart + 1e-6


@given(comparisons=st.integers(1, 41), freedom=st.integers(1, 500))
def test_one_look_is_dunnett_and_more_looks_cost_more(comparisons: int, freedom: int) -> None:
    once = dunnett(comparisons, freedom, 0.95)
    assert critical_value(comparisons, freedom, 0.95) == once
    assert once < critical_value(comparisons, freedom, 0.95, 2, 1)
