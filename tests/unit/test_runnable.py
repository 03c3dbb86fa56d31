"""Which cells are left out on this host."""

from pathlib import Path

import pytest
from tests.unit.plans import changed_plan

from octavo.errors import HostError
from octavo.lab import runnable
from octavo.lab.runnable import lacking, left_out, refuse_nothing_left
from octavo.plan.cells import make_cells
from octavo.plan.presets import find_plan

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
    assert sum("baseline cannot run" in reason for reason in reasons.values()) == len(reasons) - 1


def test_where_no_cell_is_left_the_reason_is_the_error() -> None:
    with pytest.raises(HostError, match="no cell of this plan can run on this host: it needs root"):
        refuse_nothing_left(CELLS, left_out(CELLS, lambda _: "it needs root"))


def test_baselines_alone_are_not_measured() -> None:
    """Such a run ended at once as decided, with "no trial is valid ()"."""
    reasons = left_out(CELLS, lambda cell: None if cell.baseline or cell.control else "clang is not installed")
    with pytest.raises(HostError, match="no compared cell of this plan can run on this host: clang is not installed"):
        refuse_nothing_left(CELLS, reasons)
    baselines = [cell for cell in CELLS if cell.baseline]
    refuse_nothing_left(baselines, {})  # a plan that compares nothing


def test_what_a_preset_lacks_is_named_with_its_package_and_nothing_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "none"))

    def installed(name: str, path: str | None = None) -> str | None:
        return None if name == "sysbench" else f"/usr/bin/{name}"

    monkeypatch.setattr(runnable.shutil, "which", installed)
    plan = find_plan("page-tables", size="quick")[0]
    cells = make_cells(plan)
    assert "sysbench is not installed (Debian: sysbench)" in lacking(plan, cells)
    assert not (tmp_path / "none").exists()
