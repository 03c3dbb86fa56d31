"""What is stored of the hosts of a run, and which may take part."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.plans import small_plan

from octavo.fleet.orders import Report
from octavo.fleet.session import HostNotes, class_of
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


def report(machine: str = "x86_64", *, page: str = "4kB", hostname: str = "one") -> Report:
    layer = {"layer": "CPU memory page", "value": page}
    host = {"hostname": hostname, "kernel": f"Linux 6.12 {machine}", "cpu": "some", "page_stack": [layer]}
    return Report({"host": host, "builds": []}, {}, 7)


def test_a_host_is_noted_and_the_first_one_is_what_reports_show(store: Store) -> None:
    notes = HostNotes(store, "run")
    notes.number("a", 1)
    notes.number("b", 2)
    assert notes.began("a", report(hostname="one")) is None
    assert notes.began("b", report(hostname="two")) is None
    again = HostNotes(store, "run")
    assert again.numbers == {"a": 1, "b": 2}
    assert again.hosts["b"]["room_bytes"] == 7
    assert store.run("run").environment["host"]["hostname"] == "one"


def test_a_host_that_is_another_one_than_before_takes_no_part(store: Store) -> None:
    notes = HostNotes(store, "run")
    notes.number("a", 1)
    notes.began("a", report(hostname="one"))
    assert "began with another hostname" in (notes.began("a", report(hostname="two")) or "")


@pytest.mark.parametrize(("machine", "page"), [("aarch64", "4kB"), ("x86_64", "64kB")])
def test_a_host_of_another_class_takes_no_part(store: Store, machine: str, page: str) -> None:
    notes = HostNotes(store, "run")
    for number, name in enumerate("ab", 1):
        notes.number(name, number)
    notes.began("a", report())
    assert "another class" in (notes.began("b", report(machine, page=page, hostname="two")) or "")


def test_a_host_without_facts_has_a_class_too() -> None:
    assert class_of({}) == "unknown, unknown kernel pages"
