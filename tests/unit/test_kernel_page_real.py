"""The counts of an emulated machine: read within limits, and never its times."""

import json

import pytest

from octavo.errors import OctavoError
from octavo.plan.cells import make_cells
from octavo.plan.presets import find_plan
from octavo.vm import images
from octavo.vm.output import Outcome
from octavo.workloads.kernel_page_real import WORKLOAD, read

PLAN = {
    "Node Type": "Aggregate", "Shared Read Blocks": 1000, "Shared Hit Blocks": 8,
    "Plans": [{"Node Type": "Bitmap Heap Scan", "Relation Name": "demo", "Shared Read Blocks": 1000}],
}  # fmt: skip
EXPLAINED = json.dumps([{"Plan": PLAN, "Planning Time": 3.3, "Execution Time": 773.5}])
WRITTEN = f"""octavo: layout
0|0|0
octavo: run
Aggregate
octavo: before
     120       59    1754      606      334      896   277720    21015        0     2452    21626
octavo: plan
{EXPLAINED}
octavo: after
    1124       59    34522      606      334      896   277720    21015        0     2452    21626
octavo: tables
1776 8
octavo: kernel
16384
Hugepagesize:      32768 kB
"""


def test_what_the_machine_counted_is_read() -> None:
    found = {one.metric: one.value for one in read(Outcome(WRITTEN, 0), 8192).observations()}
    assert found["amplification"] == (34522 - 1754) * 512 / (1000 * 8192)
    assert found["device_reads_per_run"] == 1004
    assert found["read_request_kb"] == pytest.approx(16 * 1024 / 1004)
    assert found["page_tables_kb"] == 1776
    assert (found["amplification_formula"], found["memory_page_kb"], found["huge_page_mb"]) == (2, 16, 32)


def test_no_time_of_an_emulation_is_told() -> None:
    assert not [metric for metric in WORKLOAD.metrics if metric.unit in ("ms", "s", "1/s")]
    assert not [one for one in read(Outcome(WRITTEN, 0), 8192).observations() if "773" in str(one.value)]


@pytest.mark.parametrize(
    ("was", "then", "why"),
    [
        ("0|0|0", "0|3|0", "does not have one row per block"),
        ("octavo: before\n", "", "other parts"),
        ("octavo: run\n", "octavo: plan\noctavo: run\n", "other parts"),
        ("16384", "1" * 5000, "has no page size"),
        ("1776 8", "1" * 5000, "has no page tables"),
        ("     120 ", "     " + "9" * 5000, "has no disk counters"),
        (EXPLAINED, "[" * 100_000, "not in the form that is known"),
        (EXPLAINED, "[{}]", "not in the form that is known"),
        ('"Shared Read Blocks": 1000,', f'"Shared Read Blocks": {10**30},', "unexpected form"),
        ("    1124 ", "     120 ", "it was not cold"),
    ],
)
def test_what_is_no_count_is_refused(was: str, then: str, why: str) -> None:
    assert was in WRITTEN
    with pytest.raises(OctavoError, match=why):
        read(Outcome(WRITTEN.replace(was, then, 1), 0), 8192).observations()


def test_a_failure_in_the_machine_is_told_in_a_line() -> None:
    with pytest.raises(OctavoError, match=r"failed in the machine \(exit 1\): psql: error: no server"):
        read(Outcome("octavo: layout\npsql: error: no server\n", 1), 8192)


def test_without_an_image_or_qemu_the_cell_says_what_makes_it(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path))
    plan = find_plan("kernel-page-real")[0]
    reasons = {cell.levels["kernel"]: WORKLOAD.cannot_run(cell.levels) for cell in make_cells(plan)}
    assert reasons["here"] is None
    there = {"qemu-system-aarch64": "/usr/bin/qemu-system-aarch64"}

    def which(program: str, path: str = "") -> str | None:
        del path
        return there.get(program)

    monkeypatch.setattr("octavo.vm.run.shutil.which", which)
    levels = next(cell.levels for cell in make_cells(plan) if cell.levels["kernel"] == "16kB")
    assert str(WORKLOAD.cannot_run(levels)).endswith("octavo vm build --kernel-page 16kB makes one")
    assert not images.list_images()
    there.clear()
    assert str(WORKLOAD.cannot_run(levels)).endswith("install qemu-system-arm")
    assert "8 kB blocks" in str(WORKLOAD.cannot_run({**levels, "data_block": "4kB"}))
