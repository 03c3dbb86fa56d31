"""What somebody who writes a workload gets wrong is said in one line."""

import math

import pytest

from octavo import workloads
from octavo.errors import OctavoError, UsageError
from octavo.lab.trial import require_numbers
from octavo.observation import Observation


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
