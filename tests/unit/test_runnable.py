"""Which cells are left out on this host."""

import pytest
from tests.unit.plans import changed_plan

from octavo.errors import HostError
from octavo.lab.runnable import left_out, refuse_nothing_left
from octavo.plan.cells import make_cells

CELLS = make_cells(changed_plan({}, mode=["read-only", "read-write"]))


def test_a_cell_that_cannot_run_leaves_the_others() -> None:
    lost = next(cell for cell in CELLS if not cell.baseline and not cell.control)
    reasons = left_out(CELLS, lambda cell: "no room" if cell.id == lost.id else None)
    assert reasons == {lost.id: "no room"}
    refuse_nothing_left(CELLS, reasons)


def test_without_its_baseline_a_condition_has_nothing_to_compare_with() -> None:
    baseline = next(cell for cell in CELLS if cell.baseline)
    reasons = left_out(CELLS, lambda cell: "no room" if cell.id == baseline.id else None)
    assert reasons.keys() == {cell.id for cell in CELLS if cell.condition == baseline.condition}
    assert reasons[baseline.id] == "no room"
    assert sum("nothing to compare" in reason for reason in reasons.values()) == len(reasons) - 1


def test_where_no_cell_is_left_the_reason_is_the_error() -> None:
    with pytest.raises(HostError, match="no cell of this plan can run on this host: it needs root"):
        refuse_nothing_left(CELLS, left_out(CELLS, lambda _: "it needs root"))
