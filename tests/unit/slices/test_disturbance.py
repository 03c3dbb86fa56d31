"""CPU time taken by others, on planted processes."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit import planted

from octavo.lab.slices.disturbance import CpuMeter


def plant(proc: Path, pid: int, parent: int, ticks: int, *, kernel: bool = False) -> None:
    planted.plant(proc, planted.process(pid, parent, ticks=ticks, flags=planted.KERNEL_THREAD if kernel else 0))


def open_below(place: Path) -> int:
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += descriptor.readlink().is_relative_to(place)
    return found


def test_steal_and_foreign_processes_are_shares_of_the_machine(tmp_path: Path) -> None:
    plant(tmp_path, 10, 1, 0)
    plant(tmp_path, 11, 10, 0)
    plant(tmp_path, 20, 1, 500)
    plant(tmp_path, 30, 2, 0, kernel=True)
    planted.plant(tmp_path, planted.machine())
    with CpuMeter(root=10, proc=tmp_path) as meter:
        before = meter.read()
        plant(tmp_path, 10, 1, 50)
        plant(tmp_path, 11, 10, 50)
        plant(tmp_path, 20, 1, 510)
        plant(tmp_path, 30, 2, 20, kernel=True)
        plant(tmp_path, 21, 1, 5)  # another process that has just started
        plant(tmp_path, 12, 11, 5)  # a backend that has just started
        planted.plant(tmp_path, planted.machine(user=140, idle=40, steal=20))
        steal, foreign = meter.shares(before, meter.read())
        assert steal == pytest.approx(20 / 200)
        assert foreign == pytest.approx(15 / 200)


def test_a_new_kernel_thread_costs_no_table_of_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """khugepaged starts anew when modes of transparent huge pages are switched, in every slice."""
    plant(tmp_path, 10, 1, 0)
    plant(tmp_path, 20, 1, 500)
    planted.plant(tmp_path, planted.machine())
    with CpuMeter(root=10, proc=tmp_path) as meter:
        meter.read()
        plant(tmp_path, 30, 2, 900, kernel=True)
        with monkeypatch.context() as patched:
            patched.delattr("octavo.lab.slices.disturbance.read_table")
            assert meter.read().foreign == {20: 5.0}
        (tmp_path / "30/stat").unlink()
        (tmp_path / "30").rmdir()
        assert meter.read().foreign == {20: 5.0}
        plant(tmp_path, 30, 1, 700)  # its number is a foreign process's now
        plant(tmp_path, 31, 2, 0, kernel=True)
        assert meter.read().foreign == {20: 5.0, 30: 7.0}


def test_processes_that_go_and_numbers_that_come_again(tmp_path: Path) -> None:
    plant(tmp_path, 10, 1, 0)
    plant(tmp_path, 20, 1, 500)
    plant(tmp_path, 21, 1, 500)
    planted.plant(tmp_path, planted.machine())
    with CpuMeter(root=10, proc=tmp_path) as meter:
        assert meter.read().foreign == {20: 5.0, 21: 5.0}
        for pid in (20, 21):
            (tmp_path / str(pid) / "stat").unlink()
            (tmp_path / str(pid)).rmdir()
        assert meter.read().foreign == {}
        plant(tmp_path, 20, 1, 7)
        assert meter.read().foreign == {20: 0.07}


def test_no_file_of_an_ended_process_stays_open(tmp_path: Path) -> None:
    """One ends while another begins: the table, which is then read again, does not have the first."""
    plant(tmp_path, 10, 1, 0)
    planted.plant(tmp_path, planted.machine())
    with CpuMeter(root=10, proc=tmp_path) as meter:
        for pid in range(20, 40):
            plant(tmp_path, pid, 1, 0)
            assert list(meter.read().foreign) == [pid]
            (tmp_path / str(pid) / "stat").unlink()
            (tmp_path / str(pid)).rmdir()
        assert open_below(tmp_path) == 1


def test_it_reads_what_the_kernel_says_of_a_process_that_ends() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with CpuMeter(root=child.pid) as meter:  # so that this process counts as another one
            assert os.getpid() in meter.read().foreign
            assert child.pid not in meter.read().foreign
        with CpuMeter() as meter:
            meter.read()
            assert os.getpid() not in meter.read().foreign
        with CpuMeter(root=1 << 30) as meter:  # a number that no process has
            assert child.pid in meter.read().foreign
            child.communicate(b"\\n")
            assert child.pid not in meter.read().foreign
    finally:
        child.kill()
        child.wait()
    assert "stat" not in {_target(one) for one in Path("/proc/self/fd").iterdir()}


def _target(descriptor: Path) -> str:
    try:
        return descriptor.readlink().name
    except FileNotFoundError:  # raised by the listing itself
        return ""
