"""Threads assigned to CPUs: evenly, again for each slice, and unpinned when the slice has begun."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.host import child_group
from octavo.lab.slices.freeze import GroupFreezer
from octavo.lab.slices.placement import ShuffledPlacement, deal

FOUR = frozenset(range(4))


@given(
    st.dictionaries(st.integers(1, 50), st.floats(0, 10), max_size=30),
    st.sets(st.integers(0, 63), min_size=2, max_size=8),
    st.integers(),
)
def test_every_cpu_gets_as_many_busy_threads_as_any_other(used: dict[int, float], cpus: set[int], seed: int) -> None:
    dealt = deal(used, dict.fromkeys(used, frozenset(cpus)), random.Random(seed))
    assert dealt.keys() == used.keys()
    busiest = sorted(used, key=lambda one: (-used[one], one))
    for many in range(len(busiest) + 1):
        counts = Counter(dealt[thread] for thread in busiest[:many])
        assert max(counts.values(), default=0) - min(counts[cpu] for cpu in cpus) <= 1


def test_threads_stay_on_the_cpus_that_they_may_run_on() -> None:
    allowed = {1: frozenset({0}), 2: frozenset({1, 2}), 3: frozenset({1, 2}), 4: FOUR}
    dealt = deal(dict.fromkeys(allowed, 1.0), allowed, random.Random(1))
    assert 1 not in dealt  # pinned by the plan
    assert {dealt[2], dealt[3]} == {1, 2}
    assert dealt[4] in FOUR


def test_partners_change_from_slice_to_slice() -> None:
    chance = random.Random(7)
    threads = dict.fromkeys(range(8), 1.0)
    hands = [deal(threads, dict.fromkeys(threads, frozenset({0, 1})), chance) for _ in range(200)]
    together = sum(hand[0] == hand[3] for hand in hands) / len(hands)
    assert 0.35 < together < 0.65


@pytest.fixture
def idle() -> Generator[int]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="only one CPU")
def test_a_thread_is_bound_while_it_is_stopped_and_free_when_it_goes_on(tmp_path: Path, idle: int) -> None:
    for name, text in {"freezer.state": "FROZEN\n", "tasks": f"{idle}\n0\n"}.items():
        (tmp_path / name).write_text(text)
    before = os.sched_getaffinity(idle)
    freezer = ShuffledPlacement(GroupFreezer(tmp_path), random.Random(3))
    seen: set[int] = set()
    for _ in range(30):
        (tmp_path / "freezer.state").write_text("FROZEN\n")
        freezer.freeze()
        (bound,) = os.sched_getaffinity(idle)
        seen.add(bound)
        freezer.thaw()
        assert os.sched_getaffinity(idle) == before
    assert seen == before
    assert "redistributed" in freezer.how


_FORKS = """
import os, signal
input()
if (child := os.fork()) == 0:
    signal.pause()
print(child, flush=True)
signal.pause()
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="only one CPU")
def test_what_is_forked_before_its_parent_is_free_is_free_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent continues when its group does, and forks while it is still pinned to the one CPU assigned to it."""
    command = [sys.executable, "-c", _FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        children: list[int] = []

        def set_frozen(group: Path, *, frozen: bool) -> None:
            (tmp_path / "freezer.state").write_text("FROZEN\n" if frozen else "THAWED\n")
            if frozen:
                return
            assert parent.stdin is not None and parent.stdout is not None
            parent.stdin.write("go\n")
            parent.stdin.flush()
            children.append(int(parent.stdout.readline()))
            (tmp_path / "tasks").write_text(f"{parent.pid}\n{children[0]}\n")
            assert len(os.sched_getaffinity(children[0])) == 1

        try:
            (tmp_path / "tasks").write_text(f"{parent.pid}\n")
            monkeypatch.setattr(child_group, "set_frozen", set_frozen)
            before = os.sched_getaffinity(parent.pid)
            freezer = ShuffledPlacement(GroupFreezer(tmp_path), random.Random(3))
            freezer.freeze()
            freezer.thaw()
            assert os.sched_getaffinity(parent.pid) == os.sched_getaffinity(children[0]) == before
        finally:
            for pid in (*children, parent.pid):
                os.kill(pid, signal.SIGKILL)
