"""The knob `fragmentation`, on planted trees: its requirements for a host, and its reports on memory."""

import os
from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo import knobs
from octavo.errors import OctavoError
from octavo.host.free_memory import free_memory, huge_page
from octavo.host.journal import Journal
from octavo.knobs import fragment_holder, fragmentation
from octavo.knobs.base import KnobTarget

_GB = 1024**3
_HUGE = 2 * 1024**2
_TREE = {
    "sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "2097152\n",
    "proc/sys/vm/drop_caches": "0\n",
    "proc/sys/vm/compaction_proactiveness": "20\n",
    "proc/meminfo": f"MemTotal: {8 * _GB // 1024} kB\nMemFree: {4 * _GB // 1024} kB\n"
    f"MemAvailable: {6 * _GB // 1024} kB\n",
    "proc/zoneinfo": "Node 0, zone   Normal\n  pages free     100\n        min      5\n        high     1024\n",
    "proc/buddyinfo": f"Node 0, zone DMA {'1 ' + '0 ' * 8} 1 1\nNode 0, zone   Normal   1536 {'0 ' * 10}\n",
    "proc/self/mountinfo": "30 20 0:26 / MEMORY rw - cgroup cgroup rw,memory\n",
    "proc/self/cgroup": "4:memory:/pod\n",
}

pytestmark = pytest.mark.skipif(os.sysconf("SC_PAGE_SIZE") != 4096, reason="the planted kernel has pages of 4 kB")


def no_drop(_directory: Path, _proc: Path) -> None:
    """Keeps the host's caches."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnobTarget:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(fragmentation, "drop_caches", no_drop)
    plant(tmp_path, {name: text.replace("MEMORY", str(tmp_path / "memory")) for name, text in _TREE.items()})
    return KnobTarget(tmp_path, tmp_path / "proc", tmp_path / "sys")


def refused(level: str, place: KnobTarget) -> str | None:
    return knobs.cannot({"fragmentation": level}, place)


def test_free_memory_is_counted_by_its_pieces(place: KnobTarget) -> None:
    assert huge_page(place.sys) == _HUGE
    memory = free_memory(_HUGE, place.proc)
    assert (memory.free, memory.whole) == (4096 + 2 * 1024**2 + 4 * 1024**2 + 6 * 1024**2, 6 * 1024**2)
    assert 0.5 < memory.unusable < 0.6
    assert fragmentation.reserve(place.proc) == 128 * 1024**2 + 4 * 1024**2


def test_a_host_that_has_it_is_not_refused(place: KnobTarget) -> None:
    for level in ("none", "100%/pinned", "2GB/movable"):
        assert refused(level, place) is None


def test_more_than_is_available_is_refused(place: KnobTarget) -> None:
    said = "fragmentation: 6GB requested, but only 5.87 GB can be fragmented"
    assert refused("6GB/pinned", place) == said


def test_a_memory_limit_of_ours_is_kept(place: KnobTarget, tmp_path: Path) -> None:
    plant(
        tmp_path, {"memory/pod/memory.limit_in_bytes": f"{3 * _GB}\n", "memory/pod/memory.usage_in_bytes": f"{_GB}\n"}
    )
    assert refused("2GB/pinned", place) is None
    said = refused("100%/pinned", place)
    assert said is not None and said.endswith("/memory/pod) has room for 2 GB"), said


def test_without_huge_pages_or_root_it_is_refused(place: KnobTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.sys / "kernel/mm/transparent_hugepage/hpage_pmd_size").unlink()
    assert refused("50%/pinned", place) == "fragmentation: this kernel has no transparent huge pages"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run as root" in str(refused("50%/pinned", place))


def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Replaces the program that takes memory."""
    plant(tmp_path, {"holder.py": program})
    monkeypatch.setattr(fragment_holder, "__file__", str(tmp_path / "holder.py"))


def test_memory_in_pieces_is_told_and_nobody_joins_them_meanwhile(
    place: KnobTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = f"Node 0, zone   Normal   {2 * _GB // 4096} {'0 ' * 8} 64 0"
    holder(
        tmp_path,
        monkeypatch,
        f"import pathlib, sys\nassert sys.argv[1:3] == ['{_GB}', '{_HUGE}'] and sys.argv[4] == 'movable'\n"
        f"pathlib.Path('{place.proc}/buddyinfo').write_text('{pieces}')\n"
        f"""print('{{"filled": {_GB}, "held": {_GB // 8}}}', flush=True)\nsys.stdin.read()\n""",
    )
    proactive = place.proc / "sys/vm/compaction_proactiveness"
    with Journal() as journal:
        with knobs.applied({"fragmentation": "1GB/movable"}, journal, place) as state:
            told = state.as_dict()["fragmentation"]
            assert told["achieved"] == "94.1% of free memory unusable for huge pages, 64 left, 128 MB held"
            assert told["found"].startswith("50.0% of free memory unusable for huge pages, 3 left")
            assert proactive.read_text() == "0"
            assert state.drifted() == []
        assert proactive.read_text() == "20"


def applied(level: str, place: KnobTarget) -> str:
    """The error message with the current holder."""
    with (
        Journal() as journal,
        pytest.raises(OctavoError) as caught,
        knobs.applied({"fragmentation": level}, journal, place),
    ):
        raise AssertionError("not reached")
    return str(caught.value)


def test_why_it_failed_is_told_in_a_line(place: KnobTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder(tmp_path, monkeypatch, "import sys\nprint('noise', file=sys.stderr)\nsys.exit('mlock2: Out of memory')\n")
    assert applied("1GB/pinned", place) == "fragmentation: mlock2: Out of memory"


def test_what_was_asked_for_and_did_not_happen_is_an_error(
    place: KnobTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted kernel's memory is not fragmented."""
    answer = '{"filled": 1073741824, "held": 2097152}'
    holder(tmp_path, monkeypatch, f"import sys\nprint('{answer}', flush=True)\nsys.stdin.read()\n")
    said = "fragmentation: 1 GB were fragmented, but 6 MB of 12 MB free memory are in pieces of a huge page"
    assert applied("1GB/pinned", place) == said


def test_less_free_memory_than_bytes_asked_for_is_an_error(place: KnobTarget) -> None:
    said = "fragmentation: 5GB/pinned requested, but only 3.87 GB of memory are free for it"
    assert applied("5GB/pinned", place) == said


def test_what_it_takes_is_estimated(place: KnobTarget) -> None:
    assert fragmentation.seconds("none", place.proc) == 0
    assert fragmentation.seconds("100%/pinned", place.proc) > fragmentation.seconds("1GB/pinned", place.proc) > 0
