"""A journal is obeyed only if nobody but its owner can have written it, and only where an undo may act."""

import fcntl
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from tests.security.conftest import AsNobody, needs_root

from octavo.host.cgroup import undo_controller
from octavo.host.journal import Journal, recover, restore
from octavo.host.process import boot_id
from octavo.host.trusted_paths import NotOursError, kernel_path, state_path
from octavo.host.undo import UNDO, undo


def journal_of_the_dead(home: Path, *lines: object, name: str = "dead.jsonl") -> Path:
    """A journal that nobody locks, with these lines: text as it is, anything else as JSON."""
    directory = home / "journal"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    path.chmod(0o600)
    return path


def left(home: Path, name: str) -> tuple[Path, dict[str, object]]:
    """A directory in the home, and the journal entry that removes it."""
    path = home / name
    path.mkdir(parents=True)
    return path, {"number": 1, "kind": "directory", "path": str(path)}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_it_is_its_owners_alone(own_home: Path) -> None:
    before = os.umask(0)
    try:
        with Journal() as journal:
            assert (mode(journal.path), mode(journal.path.parent)) == (0o600, 0o700)
    finally:
        os.umask(before)


def test_a_journal_from_before_is_tightened(own_home: Path) -> None:
    (own_home / "journal").mkdir(parents=True)
    (own_home / "journal").chmod(0o755)
    with Journal():
        assert mode(own_home / "journal") == 0o700


@needs_root
def test_nobody_can_hold_its_lock(own_home: Path, as_nobody: AsNobody) -> None:
    with Journal() as journal:
        tried = as_nobody(
            "import sys\ntry: open(sys.argv[1])\nexcept OSError as error: print(error.errno)", journal.path
        )
        assert tried.communicate()[0] == "13\n"


def test_a_dead_owners_journal_that_stays_locked_is_named(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, entry = left(own_home, "scratch/kept")
    owner = {"number": 0, "kind": "owner", "pid": os.getpid(), "start_time": 1, "boot_id": boot_id()}
    path = journal_of_the_dead(own_home, owner, entry)
    monkeypatch.setattr("octavo.host.journal._LOCK_PATIENCE_SECONDS", 0.0)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        (told,) = restore()
    assert (told.what, kept.exists()) == ("failed", True)
    assert str(path) in told.line
    assert [one.what for one in restore()] == ["put back"]


_BAD = ["5", "null", "{}", "[]", '"text"', '{"number": 1}', '{"kind": "directory"}', '{"number": "1", "kind": "done"}',
        '{"number": true, "kind": "value"}', '{"number": 2, "kind": 5}', "[" * 100_000, "9" * 5000, "\x00\x01",
        '{"number": 7, "kind": "direct', '{"number": 8, "kind": "owner"}' + "x" * 2_000_000]  # fmt: skip


@pytest.mark.parametrize("line", _BAD, ids=range(len(_BAD)))
def test_a_line_that_is_none_is_named_and_the_rest_restored(own_home: Path, line: str) -> None:
    gone, entry = left(own_home, "scratch/gone")
    path = journal_of_the_dead(own_home, line, entry, line)
    told = restore()
    assert [one.what for one in told] == ["left", "left", "put back"]
    assert "line 1" in told[0].line and "line 3" in told[1].line
    assert all("\n" not in one.line and len(one.line) < 600 for one in told)
    assert not gone.exists() and not path.exists()


_DAMAGED: list[dict[str, object]] = [
    {"kind": "directory"},
    {"kind": "directory", "path": 5},
    {"kind": "directory", "path": "relative"},
    {"kind": "directory", "path": "/nul\0"},
    {"kind": "process", "pid": "x"},
    {"kind": "process"},
    {"kind": "value"},
    {"kind": "value", "path": None},
    {"kind": "value", "path": "/sys/x", "moves": 5},
    {"kind": "value", "path": "/proc/sys/vm/swappiness", "form": "plain", "device": "", "found": "x", "set": "x",
     "ours": [], "boot_id": boot_id()},
    {"kind": "process", "pid": [], "start_time": {}, "boot_id": 1, "role": 1, "signal": "x"},
    {"kind": "cgroup", "path": "/sys/fs/cgroup/../../../etc"},
    {"kind": "swap", "device": "../sda"},
    {"kind": "zram", "device": "zram0/../../x"},
    {"kind": "loop", "image": ["x"]},
    {"kind": "mount"},
    {"kind": "tracing_instance"},
    {"kind": "shared_memory"},
    {"kind": "shared_memory", "since": [1]},
    {"kind": "huge_pages", "path": {}},
]  # fmt: skip


@pytest.mark.parametrize("entry", _DAMAGED, ids=range(len(_DAMAGED)))
def test_an_entry_without_sense_is_named_and_the_rest_restored(own_home: Path, entry: dict[str, object]) -> None:
    gone, good = left(own_home, "scratch/gone")
    journal_of_the_dead(own_home, good, {"number": 2, **entry})
    told = restore()
    assert {one.what for one in told} <= {"left", "put back"}
    assert f"removed {gone}" in [one.line for one in told]
    assert restore() == []


@needs_root
@pytest.mark.parametrize("what", ["directory of nobody's", "writable directory", "file of nobody's", "writable file"])
def test_what_others_can_have_written_is_not_obeyed(own_home: Path, what: str) -> None:
    kept, entry = left(own_home, "scratch/kept")
    path = journal_of_the_dead(own_home, entry)
    wrong = path.parent if "directory" in what else path
    if "nobody" in what:
        os.chown(wrong, 65534, 65534)
    else:
        wrong.chmod(wrong.stat().st_mode | 0o020)
    (told,) = restore()
    assert (told.what, kept.exists()) == ("left", True)
    assert str(path.parent) in told.line


def test_links_pipes_and_giants_are_no_journals(own_home: Path, tmp_path: Path) -> None:
    kept, entry = left(own_home, "scratch/kept")
    path = journal_of_the_dead(own_home, entry)
    real = path.rename(tmp_path / "real")
    path.symlink_to(real)
    os.mkfifo(path.with_name("pipe.jsonl"), 0o600)
    path.with_name("directory.jsonl").mkdir()
    os.link(journal_of_the_dead(own_home, entry, name="twice.jsonl"), tmp_path / "again")
    with journal_of_the_dead(own_home, name="giant.jsonl").open("wb") as giant:
        giant.truncate(1 << 40)
    told = restore()
    assert [one.what for one in told] == ["left"] * 5
    assert all(name in "".join(recover()) for name in ("dead", "pipe", "directory", "twice", "giant"))
    assert kept.exists()


def test_the_directory_may_be_no_link(own_home: Path, tmp_path: Path) -> None:
    kept, entry = left(own_home, "scratch/kept")
    journal_of_the_dead(tmp_path, entry)
    (own_home / "journal").symlink_to(tmp_path / "journal")
    assert [one.what for one in restore()] == ["left"]
    assert kept.exists()


def test_a_leftover_does_not_hinder_who_only_reads(own_home: Path) -> None:
    root = Path(__file__).parents[2]
    journal_of_the_dead(own_home, {"number": 1, "kind": "of a later version"}, 5)
    for arguments in (["runs"], ["cache", "ls"], ["build", "ls"], ["host", "restore"]):
        done = subprocess.run([root / "octavo", *arguments], capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == (1 if "restore" in arguments else 0), done.stderr
        assert "newer Octavo" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_a_value_is_written_in_proc_and_sys_only(own_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "passwd"
    file.write_text("ours")
    facts = {"number": 1, "form": "plain", "device": "", "found": "theirs", "set": "ours", "ours": None}
    journal_of_the_dead(
        own_home,
        {"kind": "value", "path": str(file), "boot_id": boot_id(), **facts},
        {**facts, "kind": "controller", "path": str(file), "controller": "ours", "number": 2},
        {"number": 3, "kind": "counterparts", "ratio": str(file), "amount": str(file), "boot_id": boot_id(),
         "found": ["theirs", "0"], "set": ["ours", "ours"]},
    )  # fmt: skip
    assert [one.what for one in restore()] == ["left"] * 3
    assert file.read_text() == "ours"
    for wrong in ("/proc/1/mem", "/sys/../etc/passwd", "/sys", "/etc/shadow", "/proc/sys", "sys/x", 5, None):
        with pytest.raises(NotOursError):
            kernel_path(wrong)


_FOREIGN: list[dict[str, object]] = [
    *(
        {"kind": kind, "path": "/etc/passwd"}
        for kind in ("directory", "children", "cgroup", "controller", "value", "huge_pages")
    ),
    {"kind": "counterparts", "ratio": "/etc/passwd", "amount": "/proc/sys/vm/dirty_bytes"},
    {"kind": "counterparts", "ratio": "/proc/sys/vm/dirty_ratio", "amount": "/etc/passwd"},
    {"kind": "loop", "image": "/etc/passwd"},
    {"kind": "mount", "directory": "/etc", "image": "HOME/image"},
    {"kind": "mount", "directory": "HOME/volume", "image": "/etc/passwd"},
    {"kind": "swap", "device": "sda"},
    {"kind": "zram", "device": "sda"},
    {"kind": "process", "moves": [{"path": "/etc/passwd"}]},
]  # fmt: skip
# A process, segments by their owner and age, a tracing instance by its name.
_WITHOUT_A_PLACE = {"process", "shared_memory", "tracing_instance"}


def test_every_kind_of_entry_has_a_place_that_is_refused_or_none() -> None:
    assert {str(entry["kind"]) for entry in _FOREIGN} | _WITHOUT_A_PLACE == UNDO.keys()


@pytest.mark.parametrize("entry", _FOREIGN, ids=lambda entry: f"{entry['kind']}-{len(str(entry))}")
def test_no_undo_is_asked_about_a_place_that_is_not_ours(
    own_home: Path, entry: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    module, _, name = UNDO[str(entry["kind"])].partition(":")
    monkeypatch.setattr(f"{module}.{name}", asked.append)
    own_home.mkdir(parents=True)
    here = {
        key: value.replace("HOME", str(own_home)) if isinstance(value, str) else value for key, value in entry.items()
    }
    told = undo(here)
    assert told is not None and told.what == "left"
    assert "damaged" not in told.line and asked == []


def test_a_directory_is_removed_below_the_home_only(own_home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (own_home / "scratch").mkdir(parents=True)
    (own_home / "scratch" / "link").symlink_to(kept)
    for number, path in enumerate((kept, own_home, own_home / "scratch" / "link", own_home / "scratch/../../kept")):
        journal_of_the_dead(own_home, {"number": 1, "kind": "directory", "path": str(path)}, name=f"{number}.jsonl")
    assert [one.what for one in restore()] == ["left"] * 4
    assert kept.exists() and own_home.exists()


@needs_root
def test_a_planted_link_on_the_way_is_not_followed(own_home: Path, tmp_path: Path) -> None:
    kept, place = tmp_path / "kept/data", own_home / "scratch/lent"
    kept.mkdir(parents=True)
    place.mkdir(parents=True)
    os.chown(place, 65534, 65534)  # like a directory lent to the servers' user
    (place / "swapped").symlink_to(kept.parent)
    with pytest.raises(NotOursError):
        state_path(str(place / "swapped" / "data"))
    os.chown(place / "swapped", 65534, 65534, follow_symlinks=False)
    journal_of_the_dead(own_home, {"number": 1, "kind": "directory", "path": str(place / "swapped/data")})
    assert [one.what for one in restore()] == ["left"]
    assert kept.exists()


def test_a_link_of_our_own_may_lead_to_another_disk(own_home: Path, tmp_path: Path) -> None:
    other = tmp_path / "disk"
    (other / "one").mkdir(parents=True)
    (other / "two").mkdir()
    own_home.mkdir()
    (own_home / "datasets").symlink_to(other)
    for number, path in enumerate((own_home / "datasets/one", other / "two")):
        journal_of_the_dead(own_home, {"number": 1, "kind": "directory", "path": str(path)}, name=f"{number}.jsonl")
    assert [one.what for one in restore()] == ["put back"] * 2
    assert list(other.iterdir()) == []


def test_a_controller_of_another_boot_is_forgotten(tmp_path: Path) -> None:
    control = tmp_path / "cgroup.subtree_control"
    control.write_text("memory")
    entry = {"path": str(control), "controller": "memory"}
    assert undo_controller({**entry, "boot_id": "another"}) is None
    assert control.read_text() == "memory"
    told = undo_controller({**entry, "boot_id": boot_id()})
    assert told is not None and told.what == "put back"
