"""What is stored about the hosts of a run, and which of them may take part."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.plans import changed_plan, small_plan

from octavo.errors import UsageError
from octavo.fleet.crew import HostNotes
from octavo.fleet.orders import Report
from octavo.fleet.runs import by_class
from octavo.plan.cells import make_cells
from octavo.store.records import RunRecord
from octavo.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store.sqlite")
    record = RunRecord("run", "small", "running", "", 1, 0.0, None, {}, "", "", {}, {"fleet": {}})
    opened.create_run(record, make_cells(small_plan()))
    yield opened
    opened.close()


def report(of_class: str = "x86", *, hostname: str = "one", **loads: str) -> Report:
    host = {"hostname": hostname, "kernel": "Linux 6.12", "cpu": "some"}
    return Report({"host": host, "builds": []}, {}, 7, of_class, loads)


def test_a_host_is_noted_and_the_first_one_is_what_reports_show(store: Store) -> None:
    notes = HostNotes(store, "run")
    notes.number({"a": 1, "b": 2})
    assert notes.began("a", report(hostname="one")) is None
    assert notes.began("b", report(hostname="two")) is None
    assert "host" not in store.run("run").environment
    notes.keep()
    again = HostNotes(store, "run")
    assert again.numbers == {"a": 1, "b": 2}
    assert again.hosts["b"]["room_bytes"] == 7
    assert store.run("run").environment["host"]["hostname"] == "one"


def test_a_host_that_is_another_one_than_before_takes_no_part(store: Store) -> None:
    notes = HostNotes(store, "run")
    notes.number({"a": 1})
    notes.began("a", report(hostname="one"))
    assert "hostname changed since the run began" in (notes.began("a", report(hostname="two")) or "")


def test_a_host_whose_cpu_had_no_name_before_is_the_same(store: Store) -> None:
    """A run begun on 64-bit Arm before its CPUs were named could not be resumed."""
    host = {"hostname": "one", "kernel": "Linux 6.12 aarch64"}
    notes = HostNotes(store, "run")
    notes.number({"a": 1})
    for cpu in ("unknown", "aarch64", "Arm implementer 0x41, part 0xd0c, variant 0x3"):
        assert notes.began("a", replace(report(), environment={"host": {**host, "cpu": cpu}})) is None
    other = replace(report(), environment={"host": {**host, "cpu": "Arm implementer 0x41, part 0xd4f, variant 0x0"}})
    assert "cpu changed since the run began" in (notes.began("a", other) or "")


def test_a_host_whose_compiler_is_another_one_than_before_takes_no_part(store: Store) -> None:
    def with_builds(*names: str) -> Report:
        first = report()
        return replace(first, environment={**first.environment, "builds": [{"name": name} for name in names]})

    notes = HostNotes(store, "run")
    notes.number({"a": 1})
    assert notes.began("a", with_builds("18-b4-old", "18-b8-old")) is None
    assert notes.began("a", with_builds("18-b8-old")) is None
    assert notes.began("a", with_builds("18-b4-old", "18-b8-old")) is None
    why = notes.began("a", with_builds("18-b4-new", "18-b8-new")) or ""
    assert "builds changed since the run began (18-b4-old, 18-b8-old, now 18-b4-new, 18-b8-new)" in why


def test_a_host_with_copies_of_anothers_loads_takes_no_part(store: Store) -> None:
    notes = HostNotes(store, "run")
    notes.number({"a": 1, "b": 2, "c": 3})
    assert notes.began("a", report(one="1111", two="2222")) is None
    assert notes.began("b", report(hostname="two", one="3333")) is None  # of the same name, and made there
    why = notes.began("c", report(hostname="three", one="1111", two="2222", three="5555")) or ""
    assert "its load one is a copy of a's" in why and why.endswith("octavo cache rm one two")
    assert notes.began("c", report(hostname="three", three="5555")) is None
    notes.keep()
    resumed = HostNotes(store, "run")
    assert resumed.began("a", report(two="2222", one="4444")) is None  # made anew
    assert "is a copy of a's" in (resumed.began("b", report(hostname="two", one="1111")) or "")


def test_a_host_of_another_class_takes_no_part_unless_classes_are_levels(store: Store) -> None:
    notes = HostNotes(store, "run")
    notes.number({"a": 1, "b": 2})
    notes.began("a", report())
    assert "of class arm, the others of x86" in (notes.began("b", report("arm", hostname="two")) or "")
    cells = make_cells(small_plan(host_class=["x86", "arm"]))
    store.create_run(RunRecord("both", "small", "running", "", 1, 0.0, None, {}, "", "", {}, {"fleet": {}}), cells)
    notes = HostNotes(store, "both")
    notes.number({"a": 1, "b": 2, "c": 3})
    assert notes.began("a", report()) is None
    assert notes.began("b", report("arm", hostname="two")) is None
    assert "no cell for hosts of its class, mips" in (notes.began("c", report("mips", hostname="three")) or "")


def test_a_host_whose_class_has_another_name_than_before_can_keep_it(store: Store) -> None:
    """LVM on NVMe was ssd before: a host was refused as unlike the others, of which it was one."""
    notes = HostNotes(store, "run")
    notes.number({"a": 1})
    assert notes.began("a", report("x86_64-4kB-ssd")) is None
    why = notes.began("a", report("x86_64-4kB-nvme")) or ""
    assert "class changed since the run began" in why
    assert 'write class = "x86_64-4kB-ssd" for it in the hosts file' in why
    assert notes.began("a", report("x86_64-4kB-ssd")) is None


def test_classes_become_levels_where_the_hosts_have_several() -> None:
    plan = small_plan()
    assert by_class(plan, {"a": "x86", "b": "x86"}, lambda _: None) is plan
    both = by_class(plan, {"a": "x86", "b": "arm"}, lambda _: None)
    assert both.factors["host_class"] == ["arm", "x86"]
    cells = make_cells(both)
    assert len(cells) == 2 * len(make_cells(plan))
    assert {cell.levels["host_class"] for cell in cells if cell.baseline} == {"arm", "x86"}
    assert by_class(both, {"a": "x86", "b": "mips"}, lambda _: None) is both


def test_a_class_is_no_baseline() -> None:
    with pytest.raises(UsageError, match="ratios are taken within hosts"):
        changed_plan({"[baseline]": '[baseline]\nhost_class = "any"'})
