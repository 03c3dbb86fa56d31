"""Page tables: the prediction's properties, and this kernel's actual page tables for a mapping."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.hugepages import savings

KB, MB, GB = 1024, 1024**2, 1024**3
BASE = os.sysconf("SC_PAGE_SIZE")
_SHMEM = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")

# Maps shared memory, touches one byte of every page, and prints the growth of its page tables.
_TOUCH = """
import mmap, sys
def tables():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmPTE")).split()[1]) * 1024
size, page = int(sys.argv[1]), int(sys.argv[2])
memory = mmap.mmap(-1, size)
before = tables()
for at in range(0, size, page):
    memory[at] = 1
print(tables() - before)
"""


@given(
    memory=st.integers(1, 4096 * GB),
    base=st.sampled_from([4 * KB, 16 * KB, 64 * KB]),
    huge=st.sampled_from([2 * MB, 32 * MB, 512 * MB, GB]),
)
def test_larger_pages_never_take_more_and_all_levels_are_whole_tables(memory: int, base: int, huge: int) -> None:
    small, large = savings.table_bytes(memory, base, base), savings.table_bytes(memory, huge, base)
    assert 0 < large <= small
    assert small % base == large % base == 0
    # At least one entry of 8 bytes for each page that is mapped.
    assert small >= -(-memory // base) * 8
    assert savings.table_bytes(memory + base, base, base) >= small


@given(size=st.sampled_from([64 * KB, 128 * KB]))
def test_pages_made_of_several_entries_save_no_table(size: int) -> None:
    # arm64's contiguous 64 kB pages are sixteen entries of the lowest level.
    assert savings.table_bytes(GB, size, 4 * KB) == savings.table_bytes(GB, 4 * KB, 4 * KB)


@pytest.mark.skipif(not savings.predictable(), reason="page tables of another kind")
@pytest.mark.skipif(
    _SHMEM.exists() and any(f"[{mode}]" in _SHMEM.read_text() for mode in ("always", "within_size", "force")),
    reason="shared memory gets transparent huge pages here",
)
@pytest.mark.parametrize("megabytes", [32, 100])
def test_the_kernel_makes_what_is_predicted(megabytes: int) -> None:
    grown = subprocess.run(
        [sys.executable, "-c", _TOUCH, str(megabytes * MB), str(BASE)], capture_output=True, text=True, check=True
    )
    predicted = savings.table_bytes(megabytes * MB, BASE, BASE)
    # One table more or less for each level: it depends on the start of the mapping, and on existing tables.
    assert abs(int(grown.stdout) - predicted) <= 3 * BASE


def test_the_published_case() -> None:
    # 138 GB of shared_buffers and 80 connections: "25+ GB" were reported, for 80 backends and the server's other
    # processes.
    (small, large) = savings.predict(148392404 * KB, [2 * MB], 80, 4 * KB, "x86_64")
    assert round(small.all / GB, 1) == 22.2
    assert round(large.all / MB) == 45


def test_other_tables_are_not_predicted() -> None:
    assert savings.predict(GB, [2 * MB], 10, 4 * KB, "s390x") == []
