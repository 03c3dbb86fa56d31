"""1 GB of memory is really fragmented, and restored at the end and after a kill."""

import array
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import Octavo

from octavo import knobs
from octavo.host.free_memory import free_memory, huge_page
from octavo.host.journal import TOKEN_VARIABLE, Journal
from octavo.host.process import find_by_environment, is_alive
from octavo.knobs import fragment_holder
from octavo.knobs.base import KnobTarget

_GB = 1024**3
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PLACE = KnobTarget(Path(__file__).parent)
_PATIENCE_SECONDS = 60.0
# Holds the fragmentation until it is killed.
_VICTIM = """
import sys, threading
from pathlib import Path
from octavo import knobs
from octavo.host.journal import Journal
from octavo.knobs.base import KnobTarget

with Journal() as journal, knobs.applied({"fragmentation": "256MB/pinned"}, journal, KnobTarget(Path(sys.argv[1]))):
    print(journal.token, flush=True)
    threading.Event().wait()
"""

_why = knobs.cannot({"fragmentation": "1GB/pinned"}, _PLACE)
pytestmark = [pytest.mark.alone, pytest.mark.skipif(_why is not None, reason=_why or "")]


def frames_of(pid: int) -> list[int]:
    """The frames of a process's largest mapping (proc_pid_pagemap(5): present, and the frame)."""
    ranges = [line.split()[0].split("-") for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    first, end = max(((int(one, 16), int(other, 16)) for one, other in ranges), key=lambda pair: pair[1] - pair[0])
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as file:
        file.seek(first // _PAGE * 8)
        entries = array.array("Q", file.read((end - first) // _PAGE * 8))
    return [entry & (1 << 55) - 1 for entry in entries if entry >> 63]


def moved_of(kind: str) -> float:
    """The share of the held pages that are in other frames after the kernel has compacted all of its memory
    (admin-guide/sysctl/vm.rst, compact_memory)."""
    huge = huge_page()
    assert huge is not None
    with Journal() as journal:
        with knobs.applied({"fragmentation": f"1GB/{kind}"}, journal, _PLACE) as state:
            assert "unusable for huge pages" in state.as_dict()["fragmentation"]["achieved"]
            memory = free_memory(huge)
            assert memory.free - memory.whole > _GB // 2
            (holder,) = find_by_environment(TOKEN_VARIABLE, journal.token)
            before = frames_of(holder.pid)
            Path("/proc/sys/vm/compact_memory").write_text("1")
            after = frames_of(holder.pid)
        assert find_by_environment(TOKEN_VARIABLE, journal.token) == []
    assert len(before) == len(after) >= _GB // huge
    return sum(was != now for was, now in zip(before, after, strict=True)) / len(before)


def test_the_kernel_can_move_what_is_movable_and_not_what_is_pinned(home: Path) -> None:
    del home
    assert moved_of("pinned") == 0
    assert moved_of("movable") > 0.1


def test_while_it_fills_it_ends_with_its_input_too() -> None:
    """Filling tens of GB takes a minute, during which the process that started it may be killed."""
    command = [sys.executable, "-I", "-S", fragment_holder.__file__, str(_GB), str(huge_page()), "0", "pinned"]
    finished = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr == "its input ended while it filled memory\n"


@pytest.mark.parametrize("stopped", [False, True], ids=["it ends by itself", "the next command ends it"])
def test_after_a_kill_memory_is_free_again(home: Path, octavo: Octavo, stopped: bool) -> None:
    """The holding process notices that its input has ended; if it cannot, because it is stopped, the journal has it."""
    with subprocess.Popen(
        [sys.executable, "-c", _VICTIM, _PLACE.directory], stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        token = victim.stdout.readline().strip()
        (holder,) = find_by_environment(TOKEN_VARIABLE, token)
        if stopped:
            os.kill(holder.pid, signal.SIGSTOP)
        victim.kill()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not stopped and is_alive(holder) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_alive(holder) == stopped
    finished = octavo("host", "restore")
    assert finished.returncode == 0
    assert (f"ended fragmentation (pid {holder.pid})" in finished.stdout) == stopped
    assert not is_alive(holder)
    assert not (home / "journal" / f"{token}.jsonl").exists()
