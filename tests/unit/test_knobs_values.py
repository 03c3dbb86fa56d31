"""Values of the kernel, on planted files: recorded before a change, read back, restored, and kept if others set
them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo import knobs
from octavo.errors import OctavoError
from octavo.host import journal as journals
from octavo.host.journal import Journal, recover, restore
from octavo.host.kernel_value import KernelValue, changed, counterpart_changed
from octavo.host.process import boot_id
from octavo.host.undo import Undone
from octavo.knobs.base import KnobTarget


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return plant(tmp_path, {"sys/value": "10\n"}) / "sys/value"


def planted_entry(home: Path, **facts: object) -> Path:
    """The journal of a killed process with one entry."""
    entry = {"number": 1, "kind": "value", "form": "plain", "device": "", "ours": None, "boot_id": boot_id(), **facts}
    return plant(home, {"journal/killed.jsonl": json.dumps(entry) + "\n"})


def entries(journal: Journal) -> list[dict[str, object]]:
    """The entries of the journal except its owner's name."""
    return [json.loads(line) for line in journal.path.read_text().splitlines()[1:]]


def test_the_entry_is_durable_before_the_change(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, object]] = []
    synced: list[int] = []
    write = KernelValue.write
    monkeypatch.setattr(journals.os, "fsync", synced.append)

    def spy(self: KernelValue, text: str) -> None:
        seen.extend(entries(journal))
        assert synced
        write(self, text)

    monkeypatch.setattr(KernelValue, "write", spy)
    with Journal() as journal:
        synced.clear()  # of its owner's name
        with changed(KernelValue(file), "20", journal):
            assert file.read_text() == "20"
    assert (seen[0]["found"], seen[0]["set"], seen[0]["path"]) == ("10", "20", str(file))
    assert file.read_text() == "10"


def test_a_value_that_is_so_already_is_not_touched(file: Path) -> None:
    with Journal() as journal:
        with changed(KernelValue(file), "10", journal) as achieved:
            assert achieved == "10"
            file.write_text("30")
        assert entries(journal) == []
    assert file.read_text() == "30"


def test_what_somebody_else_has_changed_is_left_and_said(file: Path) -> None:
    told: list[Undone] = []
    with Journal(told.append) as journal, changed(KernelValue(file), "20", journal):
        file.write_text("30")
    assert file.read_text() == "30"
    (one,) = told
    assert one.what == "left"
    assert all(value in one.line for value in (str(file), "10", "20", "30"))


@pytest.mark.parametrize(
    ("now", "after", "what"),
    [("20", "10", "put back"), ("10", "10", None), ("30", "30", "left")],
)
def test_after_a_kill(home: Path, file: Path, now: str, after: str, what: str | None) -> None:
    planted_entry(home, path=str(file), found="10", set="20")
    file.write_text(now)
    assert [one.what for one in restore()] == ([what] if what else [])
    assert file.read_text() == after
    assert list((home / "journal").iterdir()) == []


@pytest.mark.parametrize(("now", "after"), [("2", "0"), ("4", "0"), ("5", "5")])
def test_a_kill_before_the_kernel_had_given_all_that_was_asked_for(
    home: Path, file: Path, now: str, after: str
) -> None:
    planted_entry(home, path=str(file), found="0", set="4", ours=[0, 4])
    file.write_text(now)
    recover()
    assert file.read_text() == after


def test_a_reboot_has_put_everything_back(home: Path, file: Path) -> None:
    planted_entry(home, path=str(file), found="5", set="10", boot_id="another boot")
    assert restore() == []
    assert file.read_text() == "10\n"


def test_a_value_whose_device_has_gone_is_done_with(home: Path, tmp_path: Path) -> None:
    planted_entry(home, path=str(tmp_path / "gone"), found="5", set="10")
    assert restore() == []


def test_what_the_kernel_refuses_is_an_error_and_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: KernelValue, text: str) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(KernelValue, "write", refuse)
    with (
        Journal() as journal,
        pytest.raises(OctavoError, match="refuses '20'"),
        changed(KernelValue(file), "20", journal),
    ):
        raise AssertionError("not reached")
    assert file.read_text() == "10\n"


def test_what_the_kernel_makes_of_it_counts_as_ours(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = KernelValue.write

    def round_down(self: KernelValue, text: str) -> None:
        write(self, "12" if text == "20" else text)

    monkeypatch.setattr(KernelValue, "write", round_down)
    with Journal() as journal, changed(KernelValue(file), "20", journal) as achieved:
        assert achieved == "12"
    assert file.read_text() == "10"


def test_a_value_that_we_went_on_changing_within_its_range_is_put_back(file: Path) -> None:
    value = KernelValue(file)
    with Journal() as journal, changed(value, "40", journal, ours=(1, 40), ours_later=True):
        value.write("38")
    assert file.read_text() == "10"


def test_forms_of_files(tmp_path: Path) -> None:
    choice = plant(tmp_path, {"choice": "always [madvise] never\n"}) / "choice"
    value = KernelValue(choice, "choice")
    assert (value.read(), value.choices()) == ("madvise", ["always", "madvise", "never"])
    lines = plant(tmp_path, {"lines": "7:0 300\n7:10 400\n"}) / "lines"
    assert KernelValue(lines, "device", "7:0").read() == "300"
    assert KernelValue(lines, "device", "7:1").read() == ""
    KernelValue(lines, "device", "7:1").write("")
    assert lines.read_text() == "7:1 0"


def test_what_the_kernel_changes_along_with_it_is_put_back(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, {"limit": "1280", "readahead": "4096"})
    limit, readahead = KernelValue(tmp_path / "limit"), KernelValue(tmp_path / "readahead")
    write = KernelValue.write

    def move_both(self: KernelValue, text: str) -> None:
        write(self, text)
        if self.path == limit.path:
            readahead.path.write_text("2560")

    monkeypatch.setattr(KernelValue, "write", move_both)
    with (
        Journal() as journal,
        changed(limit, "256", journal, moves=[readahead, KernelValue(tmp_path / "missing")]),
    ):
        assert (limit.read(), readahead.read()) == ("256", "2560")
        journal.path.with_name("killed.jsonl").write_text(journal.path.read_text())
        assert {one.what for one in restore()} == {"put back"}
        assert (limit.read(), readahead.read()) == ("1280", "4096")
        move_both(limit, "256")
    assert (limit.read(), readahead.read()) == ("1280", "4096")


def test_what_a_governor_loses_and_sets_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver such as amd_pstate keeps the preference of `performance`; the last policy takes the settings along."""
    cpufreq = tmp_path / "sys/devices/system/cpu/cpufreq"
    preference, tuned = cpufreq / "policy0/energy_performance_preference", cpufreq / "schedutil/rate_limit_us"
    governors = {"policy0/scaling_governor": "powersave", "policy1/scaling_governor": "schedutil"}
    settings = {"policy0/energy_performance_preference": "balance_power", "schedutil/rate_limit_us": "77"}
    plant(cpufreq, governors | settings)
    write = KernelValue.write

    def set_governor(self: KernelValue, text: str) -> None:
        write(self, text)
        if self.path == cpufreq / "policy0/scaling_governor" and text == "performance":
            preference.write_text("performance")
        if self.path == cpufreq / "policy1/scaling_governor":
            shutil.rmtree(tuned.parent, ignore_errors=True)
            if text == "schedutil":
                plant(cpufreq, {"schedutil/rate_limit_us": "1000"})

    monkeypatch.setattr(KernelValue, "write", set_governor)
    place = KnobTarget(tmp_path, tmp_path / "proc", tmp_path / "sys")
    with Journal() as journal, knobs.applied({"cpu_governor": "performance"}, journal, place):
        assert (preference.read_text(), tuned.exists()) == ("performance", False)
    assert {name: (cpufreq / name).read_text() for name in governors | settings} == governors | settings


class Vm:
    """Two files of which the kernel sets one to 0 when the other is written, and refuses 0 for the amount."""

    def __init__(self, root: Path, ratio: str, amount: str) -> None:
        plant(root, {"ratio": ratio, "bytes": amount})
        self.ratio, self.amount = root / "ratio", root / "bytes"

    def write(self, value: KernelValue, text: str) -> None:
        if value.path == self.amount and text == "0":
            raise OSError(22, "Invalid argument")
        value.path.write_text(text)
        (self.ratio if value.path == self.amount else self.amount).write_text("0")

    def take_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Writes every value through this object."""

        def write(value: KernelValue, text: str) -> None:
            self.write(value, text)

        monkeypatch.setattr(KernelValue, "write", write)

    @property
    def state(self) -> tuple[str, str]:
        return self.ratio.read_text(), self.amount.read_text()


@pytest.mark.parametrize("found", [("20", "0"), ("0", "8192")])
@pytest.mark.parametrize(("text", "as_amount", "then"), [("30", False, ("30", "0")), ("4096", True, ("0", "4096"))])
def test_counterparts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: tuple[str, str],
    text: str,
    as_amount: bool,
    then: tuple[str, str],
) -> None:
    vm = Vm(tmp_path / "vm", *found)
    vm.take_over(monkeypatch)
    with (
        Journal() as journal,
        counterpart_changed(vm.ratio, vm.amount, text, as_amount=as_amount, journal=journal) as now,
    ):
        assert now == then == vm.state
    assert vm.state == found


def test_counterparts_that_somebody_else_has_changed_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vm = Vm(tmp_path / "vm", "20", "0")
    vm.take_over(monkeypatch)
    told: list[Undone] = []
    with (
        Journal(told.append) as journal,
        counterpart_changed(vm.ratio, vm.amount, "4096", as_amount=True, journal=journal),
    ):
        vm.write(KernelValue(vm.ratio), "15")
    assert vm.state == ("15", "0")
    assert [one.what for one in told] == ["left"]


def test_what_cannot_be_undone_is_kept_and_tried_again(home: Path, tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", home / "gone"
    gone.mkdir(parents=True)
    entries = [
        {"number": 1, "kind": "directory", "path": str(gone)},
        {"number": 2, "kind": "of a later version", "path": str(kept)},
    ]
    plant(home, {"journal/a.jsonl": "".join(json.dumps(entry) + "\n" for entry in entries)})
    first = restore()
    assert {one.what for one in first} == {"put back", "failed"}
    assert not gone.exists()
    again = restore()
    assert [one.what for one in again] == ["failed"]
    assert "newer Octavo" in again[0].line
    (left,) = (home / "journal").iterdir()
    assert [json.loads(line)["number"] for line in left.read_text().splitlines()] == [2]


def test_what_could_not_be_undone_at_the_end_is_left_to_the_next_command(
    file: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = KernelValue.write
    told: list[Undone] = []

    def refuse(self: KernelValue, text: str) -> None:
        if text == "10":
            raise OSError(16, "Device or resource busy")
        write(self, text)

    monkeypatch.setattr(KernelValue, "write", refuse)
    with Journal(told.append) as journal, changed(KernelValue(file), "20", journal):
        pass
    assert {one.what for one in told} == {"failed"}
    monkeypatch.setattr(KernelValue, "write", write)
    assert [one.what for one in restore()] == ["put back"]
    assert file.read_text() == "10"
    assert list((home / "journal").iterdir()) == []


_VICTIM = """
import os, signal, sys
from pathlib import Path
from octavo.host import trusted_paths
from octavo.host.journal import Journal
from octavo.host.kernel_value import KernelValue, changed
trusted_paths.KERNEL_ROOTS = (Path(sys.argv[1]).parent,)
with Journal() as journal, changed(KernelValue(Path(sys.argv[1])), "20", journal):
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise KeyboardInterrupt
"""


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_a_process_that_ends_in_the_middle(file: Path, how: str) -> None:
    subprocess.run([sys.executable, "-c", _VICTIM, str(file), how], stderr=subprocess.DEVNULL, check=False)
    assert file.read_text() == ("20" if how == "kill" else "10")
    recover()
    assert file.read_text() == "10"
