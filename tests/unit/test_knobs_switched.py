"""Modes of transparent huge pages: those of sizes of pages; and switched between cells of a round in slices: set, seen
when others change them, and restored."""

import json
from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo import knobs
from octavo.errors import OctavoError
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue
from octavo.host.undo import Undone
from octavo.knobs import khugepaged, switched
from octavo.knobs.base import KnobTarget

NEVER = {"thp": "never", "shmem_thp": "never"}
ALWAYS = {"thp": "always", "shmem_thp": "always"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnobTarget:
    """The kernel's files, which here have only the word in force."""
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    modes = tmp_path / "sys/kernel/mm/transparent_hugepage"
    modes.mkdir(parents=True)
    (modes / "enabled").write_text("madvise")
    (modes / "shmem_enabled").write_text("never")
    (modes / "khugepaged").mkdir()
    (modes / "khugepaged/pages_to_scan").write_text("4096")
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/min_free_kbytes").write_text("45056")
    return KnobTarget(tmp_path, tmp_path / "proc", tmp_path / "sys")


def modes_of(place: KnobTarget) -> tuple[str, str]:
    """The words of both files."""
    found = [(place.sys / "kernel/mm/transparent_hugepage" / name).read_text() for name in ("enabled", "shmem_enabled")]
    return found[0], found[1]


def test_each_cell_has_its_modes_and_the_host_its_own_again(place: KnobTarget) -> None:
    told: list[Undone] = []
    with Journal(told.append) as journal:
        with switched.switches([NEVER, ALWAYS], journal, place) as switches:
            assert modes_of(place) == ("never", "never")
            assert khugepaged.pages_of_a_scan(place).read() == "1"
            switches.to(ALWAYS)
            assert modes_of(place) == ("always", "always")
            switches.to({})  # as found
            assert modes_of(place) == ("madvise", "never")
            switches.to(ALWAYS)
            # The kernel raises it with some modes and not with others.
            (place.proc / "sys/vm/min_free_kbytes").write_text("67584")
            assert switches.drifted() == []
            assert switches.facts(ALWAYS) == {
                "thp": {"asked": "always", "achieved": "always", "found": "madvise"},
                "shmem_thp": {"asked": "always", "achieved": "always", "found": "never"},
                "khugepaged_pages_to_scan": {"asked": "1", "achieved": "1", "found": "4096"},
            }
        assert modes_of(place) == ("madvise", "never")
        assert (place.proc / "sys/vm/min_free_kbytes").read_text() == "45056"
        assert khugepaged.pages_of_a_scan(place).read() == "4096"
    assert {one.what for one in told} <= {"put back"}


def test_cells_with_the_same_levels_have_nothing_to_switch(place: KnobTarget) -> None:
    assert switched.differing([NEVER, NEVER]) == ()
    assert switched.differing([{}, {"thp": "as-found"}]) == ()
    assert switched.differing([NEVER, {**NEVER, "shmem_thp": "always"}]) == ("shmem_thp",)
    with Journal() as journal, switched.switches([NEVER, NEVER], journal, place) as switches:
        switches.to(NEVER)
        assert switches.facts(NEVER) == {}
        assert khugepaged.pages_of_a_scan(place).read() == "4096"
        assert modes_of(place) == ("madvise", "never")


def test_what_others_set_meanwhile_is_seen(place: KnobTarget) -> None:
    enabled = place.sys / "kernel/mm/transparent_hugepage/enabled"
    with Journal() as journal, switched.switches([NEVER, ALWAYS], journal, place) as switches:
        enabled.write_text("madvise")
        switches.to(ALWAYS)
        assert switches.drifted() == [f"thp: {enabled}: never became madvise"]


def test_khugepaged_that_scans_paused_servers_again_is_seen(place: KnobTarget) -> None:
    pages = khugepaged.pages_of_a_scan(place)
    with Journal() as journal, switched.switches([NEVER, ALWAYS], journal, place) as switches:
        assert switches.drifted() == []
        pages.write("4096")
        assert switches.drifted() == [f"khugepaged_pages_to_scan: {pages}: 1 became 4096"]


def test_a_mode_that_the_kernel_does_not_take_is_seen(place: KnobTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Journal() as journal,
        switched.switches([NEVER, {**NEVER, "thp": "always"}], journal, place) as switches,
        monkeypatch.context() as patched,
    ):
        patched.setattr(KernelValue, "write", ignore)
        switches.to(ALWAYS)
        assert [line.partition("enabled: ")[2] for line in switches.drifted()] == ["always became never"]


@pytest.mark.parametrize("left_at", ["never", "always"])
def test_after_a_kill_the_mode_of_any_cell_is_ours(place: KnobTarget, left_at: str) -> None:
    enabled = place.sys / "kernel/mm/transparent_hugepage/enabled"
    with Journal() as journal, switched.switches([NEVER, {**NEVER, "thp": "always"}], journal, place) as switches:
        entries = [json.loads(line) for line in journal.path.read_text().splitlines()]
        assert [entry["ours"] for entry in entries if entry.get("ours")] == [["always", "never"]]
        switches.to({"thp": left_at})
        assert enabled.read_text() == left_at
    assert enabled.read_text() == "madvise"


def test_a_mode_of_nobodys_is_left(place: KnobTarget) -> None:
    enabled = place.sys / "kernel/mm/transparent_hugepage/enabled"
    told: list[Undone] = []
    with Journal(told.append) as journal, switched.switches([NEVER, {**NEVER, "thp": "madvise"}], journal, place):
        enabled.write_text("always")
    assert enabled.read_text() == "always"
    assert [one.what for one in told] == ["left"]


def test_a_refused_mode_is_told(place: KnobTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Journal() as journal,
        switched.switches([NEVER, ALWAYS], journal, place) as switches,
        monkeypatch.context() as patched,
        pytest.raises(OctavoError, match=r"refuses 'always' for .*/enabled"),
    ):
        patched.setattr(KernelValue, "write", refuse)
        switches.to(ALWAYS)
    assert modes_of(place) == ("madvise", "never")


@pytest.mark.parametrize(
    ("knob", "level", "size", "word", "follows"),
    [
        ("thp", "never", 2048, "inherit", True),
        ("thp", "never", 2048, "always", False),
        ("thp", "never", 2048, "never", True),
        ("thp", "always", 2048, "never", False),
        ("thp", "never", 64, "never", True),
        ("thp", "never", 64, "madvise", True),  # which PostgreSQL does not request
        ("thp", "never", 64, "always", False),
        ("shmem_thp", "always", 2048, "never", False),
        ("shmem_thp", "never", 64, "advise", True),
        ("shmem_thp", "never", 64, "within_size", False),
        ("shmem_thp", "deny", 64, "always", True),
    ],
)
def test_a_size_of_page_with_a_mode_of_its_own(
    place: KnobTarget, knob: str, level: str, size: int, word: str, follows: bool
) -> None:
    """Cells of never and always would have the same memory."""
    name = {"thp": "enabled", "shmem_thp": "shmem_enabled"}[knob]
    files = {"hpage_pmd_size": "2097152\n", f"hugepages-{size}kB/{name}": f"other [{word}]\n"}
    plant(place.sys / "kernel/mm/transparent_hugepage", files)
    plant(place.sys / "kernel/mm/transparent_hugepage", {name: "always advise madvise deny [never]\n"})
    reason = knobs.cannot({knob: level}, place)
    if follows:
        assert reason is None
    else:
        assert f"hugepages-{size}kB/{name} is {word}, so pages of that size do not follow " in str(reason)


def ignore(value: KernelValue, text: str) -> None:
    """A kernel that keeps what it has."""


def refuse(value: KernelValue, text: str) -> None:
    """A kernel that does."""
    raise OSError(22, "Invalid argument")
