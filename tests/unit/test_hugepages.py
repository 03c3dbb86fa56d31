"""Huge pages on planted trees: the pool's arithmetic, settings at boot, advice, and the postmaster's figures."""

# pyright: reportPrivateUsage=false

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.unit.planted import plant

from octavo.errors import HostError
from octavo.host import children
from octavo.host.children import Finished
from octavo.host.journal import Journal
from octavo.hugepages import needed, plan, postmaster_memory, stopped, verify
from octavo.hugepages.advice import advise
from octavo.hugepages.boot import at_boot
from octavo.hugepages.needed import ServerPages
from octavo.hugepages.pool import PoolState, default_page, read_pool, read_pools
from octavo.hugepages.render import print_plan

KB, MB, GB = 1024, 1024**2, 1024**3


def pool_files(
    page: int, total: int, free: int, reserved: int = 0, surplus: int = 0, below: str = ""
) -> dict[str, str]:
    directory = f"{below or 'sys/kernel/mm'}/hugepages/hugepages-{page // KB}kB"
    numbers = {"nr": total, "free": free, "resv": reserved, "surplus": surplus, "nr_overcommit": 0}
    return {f"{directory}/{name}_hugepages": f"{number}\n" for name, number in numbers.items()}


def meminfo(**kilobytes: int) -> dict[str, str]:
    lines = {"MemTotal": 8_200_000, "MemFree": 4_000_000, "MemAvailable": 8_000_000, "Hugepagesize": 2048, **kilobytes}
    return {"proc/meminfo": "".join(f"{name}: {value} kB\n" for name, value in lines.items())}


def server(**changes: Any) -> ServerPages:
    facts: dict[str, Any] = {
        "source": "a test", "version": "18.6", "shared_memory": 143 * MB, "shared_buffers": 128 * MB,
        "huge_pages": "try", "huge_page_size": 0, "shared_memory_type": "mmap", "max_connections": 100,
        "pages": {2 * MB: 72, GB: 1},
    }  # fmt: skip
    return ServerPages(**{**facts, **changes})


def test_every_pool_is_read_with_its_nodes(tmp_path: Path) -> None:
    node = "sys/devices/system/node/node{}"
    plant(
        tmp_path,
        pool_files(2 * MB, 12, 7, 7, 2)
        | pool_files(GB, 1, 1)
        | pool_files(2 * MB, 8, 5, below=node.format(0))
        | pool_files(2 * MB, 4, 2, surplus=2, below=node.format(10))
        | meminfo(),
    )
    small, large = read_pools(tmp_path / "sys")
    assert (small.page, large.page) == (2 * MB, GB)
    assert (small.available, small.in_use, small.persistent) == (0, 12, 10)
    assert [(one.node, one.total, one.free, one.surplus) for one in small.nodes] == [(0, 8, 5, 0), (10, 4, 2, 2)]
    assert large.nodes == ()
    # Node 10 has CPUs only: Linux 6.2 and later list an empty pool for it, which no line can fill.
    plant(tmp_path, {"sys/devices/system/node/has_memory": "0-1,3\n"})
    assert [one.node for one in read_pools(tmp_path / "sys")[0].nodes] == [0]
    assert default_page(tmp_path / "proc") == 2 * MB
    with pytest.raises(HostError, match=r"no .*hugepages-64kB"):
        read_pool(64 * KB, tmp_path / "sys")


def test_a_kernel_without_huge_pages_says_so(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="this kernel has no huge pages"):
        read_pools(tmp_path)
    plant(tmp_path, {"proc/meminfo": "MemTotal: 1 kB\n"})
    with pytest.raises(HostError, match="no Hugepagesize"):
        default_page(tmp_path / "proc")


@given(
    used=st.integers(0, 500), reserved=st.integers(0, 500), spare=st.integers(0, 500), wanted=st.integers(1, 1000),
    share=st.floats(0, 1), surplus=st.integers(0, 500),
)  # fmt: skip
def test_the_target_is_just_enough(
    used: int, reserved: int, spare: int, wanted: int, share: float, surplus: int
) -> None:
    pool = PoolState(2 * MB, used + reserved + spare, reserved + spare, reserved, min(surplus, used + reserved), 0)
    own = int((used + reserved) * share)
    target = pool.target(wanted, own)
    others = used + reserved - own
    assert target == others + wanted  # the server's own pages are freed when it is restarted
    after = max(pool.persistent, target)
    assert pool.short(wanted, own) == after - pool.persistent
    assert after - others >= wanted


@pytest.mark.parametrize(("own", "result"), [(72, "ok"), (71, "ok"), (70, "bad"), (0, "bad")])
def test_a_server_starts_again_on_the_pages_that_it_has(own: int, result: str) -> None:
    """PostgreSQL asks for 72 where 71 are mapped and are a whole number of pages."""
    used = PoolState(2 * MB, total=own, free=0, reserved=0, surplus=0, overcommit=0)
    situation: Any = SimpleNamespace(server=server(), pool=lambda: used, own=Mock(return_value=own))
    assert verify._restart(situation)["result"] == result


@pytest.mark.parametrize(
    ("now", "pending", "result"),
    [("on", (), "ok"), ("off", (), "bad"), ("try", (), "note"), ("on", ("huge_pages",), "note")],
)
def test_a_setting_that_the_next_start_changes_is_not_ok(now: str, pending: tuple[str, ...], result: str) -> None:
    situation: Any = SimpleNamespace(server=server(huge_pages=now, pending=pending))
    assert verify._setting(situation)["result"] == result


def test_what_a_running_server_needs_is_counted_for_every_size() -> None:
    row = {
        "version": "18.6 (Debian 18.6-1)", "shared_memory": 150 * MB, "in_huge_pages": 75, "shared_buffers": 128 * MB,
        "huge_pages": "try", "huge_pages_status": "off", "huge_page_size": 0, "shared_memory_type": "mmap",
        "max_connections": 100, "connections": 3, "pending": None,
    }  # fmt: skip
    found = needed.running(row, [64 * KB, 2 * MB, GB], 2 * MB, 42, "")
    assert found.pages == {64 * KB: 2400, 2 * MB: 75, GB: 1}
    assert (found.version, found.page(2 * MB), found.pending) == ("18.6", 2 * MB, ())
    # PostgreSQL counts one page more than it maps if its memory is a multiple of the page; its count is used.
    own = needed.running(
        {**row, "huge_page_size": GB, "shared_memory": GB, "in_huge_pages": 2}, [2 * MB, GB], 2 * MB, 1, ""
    )
    assert own.pages == {2 * MB: 512, GB: 2}


def test_a_stopped_server_is_asked_for_every_size() -> None:
    answers = {
        "server_version": "15.18 (Debian 15.18-0)", "shared_memory_size": "143", "shared_buffers": "16384",
        "block_size": "8192", "huge_pages": "try", "huge_page_size": "1048576", "shared_memory_type": "mmap",
        "max_connections": "100",
    }  # fmt: skip
    pages = {2 * MB: "72", GB: "1"}
    found = needed.stopped(lambda name, size: pages[size] if size else answers[name], [2 * MB, GB], "a test")
    assert (found.shared_memory, found.shared_buffers, found.page(2 * MB)) == (143 * MB, 128 * MB, GB)
    assert found.pages == {2 * MB: 72, GB: 1}
    assert not found.running


def test_programs_of_other_versions_are_passed_over_however_these_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"path": "9.6.24", "config": "17.2-ours", "package": "18.6-ours (a distribution's)"}
    for place in versions:
        (tmp_path / place).mkdir()
        (tmp_path / place / "postgres").touch()

    def run(arguments: Sequence[str | Path], *_: object, role: str, **__: object) -> Finished:
        if role == "pg_config":
            return Finished(0, f"{tmp_path / 'config'}\n", "", 0.0)
        program = next(Path(word) for word in arguments if str(word).endswith("/postgres"))
        return Finished(0, f"postgres (PostgreSQL) {versions[program.parent.name]}\n", "", 0.0)

    def which(name: str) -> str:
        return str(tmp_path / "path" / name)

    monkeypatch.setattr(children, "run", run)
    monkeypatch.setattr(shutil, "which", which)
    monkeypatch.setattr(stopped, "_PLACES", (str(tmp_path / "package"),))
    journal = cast(Journal, None)  # which only starts children
    assert stopped._program(18, None, journal, None) == (tmp_path / "package" / "postgres", "where packages put it")
    with pytest.raises(HostError, match=r"path/postgres is 9\.6\.24; .*config/postgres is 17\.2-ours; .*18\.6-ours"):
        stopped._program(16, None, journal, None)


SMAPS = """\
5600000000-5600100000 r-xp 00000000 08:01 77 /usr/lib/postgresql/18/bin/postgres
Size:               1024 kB
KernelPageSize:        4 kB
7f0000000000-7f0001800000 rw-s 00000000 00:0f 99 /anon_hugepage (deleted)
Size:              24576 kB
KernelPageSize:     2048 kB
7f0002000000-7f0002100000 rw-s 00000000 00:1a 12 /dev/shm/PostgreSQL.123
Size:                 48 kB
KernelPageSize:        4 kB
7f0003000000-7f0003100000 rw-p 00000000 00:00 0
Size:                512 kB
KernelPageSize:        4 kB
7ffd00000000-7ffd00100000 rw-p 00000000 00:00 0 [stack]
Size:                132 kB
KernelPageSize:        4 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
Size:                  4 kB
KernelPageSize:        4 kB
"""


def postmaster(root: Path, *, smaps: bool) -> Path:
    status = "Name:\tpostgres\nVmPeak:\t   83558 kB\nVmPTE:\t     {} kB\nHugetlbPages:\t   10240 kB\n"
    files = {"42/task/42/children": "43 44 ", "42/status": status.format(100), "43/status": status.format(60)}
    return plant(root, files | ({"42/smaps": SMAPS} if smaps else {}))


def test_the_postmaster_shows_its_shared_memory_and_what_vmpeak_adds(tmp_path: Path) -> None:
    found = postmaster_memory.read_postmaster(42, postmaster(tmp_path, smaps=True))
    assert found is not None
    assert (found.mapping, found.page, found.huge) == (24 * MB, 2 * MB, 10 * MB)
    assert (found.tables, found.processes) == (160 * KB, 2)  # the third has ended meanwhile
    assert found.parts == {
        postmaster_memory.FILES: MB, postmaster_memory.SHARED: 24 * MB, postmaster_memory.OTHER: 48 * KB,
        postmaster_memory.PRIVATE: 644 * KB,
    }  # fmt: skip
    said = found.as_dict(12, 2 * MB)
    assert (said["vm_peak_pages"], said["over_asked_pages"], said["over_asked_bytes"]) == (40, 28, 56 * MB)


def test_without_smaps_the_peak_is_still_there(tmp_path: Path) -> None:
    found = postmaster_memory.read_postmaster(42, postmaster(tmp_path, smaps=False))
    assert found is not None
    assert (found.peak, found.mapping, found.parts) == (83558 * KB, None, None)
    assert postmaster_memory.read_postmaster(7, tmp_path) is None


@pytest.mark.parametrize(
    ("files", "pages", "said_by"),
    [
        ({}, None, ""),
        ({"proc/cmdline": f"hugepages={'9' * 5_000}\n"}, None, ""),
        ({"proc/cmdline": "quiet hugepages=64 hugepagesz=1G hugepages=2\n"}, 64, "command line"),
        ({"proc/cmdline": "default_hugepagesz=2M hugepagesz=2M hugepages=0:3,1:4\n"}, 7, "command line"),
        ({"proc/cmdline": "hugepages=64\n", "etc/sysctl.d/60-pg.conf": "# pool\nvm.nr_hugepages = 72\n"}, 72, "60-pg"),
        (
            {"etc/sysctl.d/60-pg.conf": "vm/nr_hugepages=1\n", "usr/lib/sysctl.d/70-x.conf": "vm.nr_hugepages=9\n"},
            9,
            "70-x",
        ),
        ({"etc/sysctl.d/70-x.conf": "#\n", "usr/lib/sysctl.d/70-x.conf": "vm.nr_hugepages=9\n"}, None, ""),
        (
            {"etc/sysctl.d/60-pg.conf": "vm.nr_hugepages=1\n", "etc/sysctl.conf": "vm.nr_hugepages=5\n"},
            5,
            "sysctl.conf",
        ),
        ({"etc/sysctl.conf": "#vm.nr_hugepages=5\nvm.nr_hugepages_mempolicy=4\n"}, None, ""),
        # systemd-sysctl reads only sysctl.d.
        ({"etc/sysctl.conf": "vm.nr_hugepages=5\n", "run/systemd/system/x": ""}, None, ""),
        ({"proc/cmdline": "hugepagesz=1G hugepages=2 hugepagesz=2097152 hugepages=9\n"}, 9, "command line"),
        ({"proc/cmdline": "hugepagesz=1G hugepages=2 default_hugepagesz=2M hugepages=9\n"}, 9, "command line"),
    ],
)
def test_what_the_next_boot_sets(tmp_path: Path, files: dict[str, str], pages: int | None, said_by: str) -> None:
    found = at_boot(2 * MB, 2 * MB, plant(tmp_path, files))
    assert (found.pages if found else None) == pages
    assert found is None or said_by in found.said_by


def test_systemd_reads_sysctl_conf_by_the_link_to_it_in_its_order(tmp_path: Path) -> None:
    root = plant(tmp_path, {"etc/sysctl.conf": "vm.nr_hugepages=5\n", "run/systemd/system/x": "", "etc/sysctl.d/x": ""})
    (root / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    found = at_boot(2 * MB, 2 * MB, root)
    assert found is not None and (found.pages, Path(found.said_by).name) == (5, "99-sysctl.conf")
    plant(root, {"etc/sysctl.d/zz-pool.conf": "vm.nr_hugepages=7\n"})
    later = at_boot(2 * MB, 2 * MB, root)
    assert later is not None and later.pages == 7


def test_other_sizes_are_set_on_the_command_line_only(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/cmdline": "hugepagesz=1G hugepages=2\n", "etc/sysctl.conf": "vm.nr_hugepages=5\n"})
    found = at_boot(GB, 2 * MB, root)
    assert found is not None and found.pages == 2


def test_the_advice_names_the_size_where_it_is_not_the_default() -> None:
    small = advise(PoolState(2 * MB, 0, 0, 0, 0, 0), 72, 0, 2 * MB, 2 * MB, 64 * GB)
    large = advise(PoolState(GB, 0, 0, 0, 0, 0), 3, 0, 2 * MB, 2 * MB, 64 * GB)
    assert small["sysctl"] == ["vm.nr_hugepages = 72"]
    assert small["postgresql_conf"] == ["huge_pages = on"]
    assert large["sysctl"] == []
    assert large["kernel_command_line"] == "hugepagesz=1G hugepages=3"
    assert large["postgresql_conf"] == ["huge_pages = on", "huge_page_size = 1GB"]
    assert large["boot_only"] and not small["boot_only"]
    assert os.path.basename(small["sysfs"]) == "nr_hugepages"  # noqa: PTH119


def test_nothing_is_advised_for_a_host_that_is_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """Its memory and the users of its pools are not this host's."""
    pool = PoolState(2 * MB, 10, 0, 0, 0, 0)
    there = server(running=True, unseen="the server runs on another host", pending=("shared_buffers",))
    situation: Any = SimpleNamespace(
        server=there, seen=None, page=2 * MB, default=2 * MB, pools=[pool], own=Mock(return_value=0)
    )
    found = plan.document(situation, None)
    assert (found["advice"], found["page_tables"]) == ([], None)
    assert [one["limit"] for one in found["limits"]] == ["pending restart"]
    print_plan(found, Console())
    said = capsys.readouterr().out
    assert "72" in said and "pool to set" not in said and "nr_hugepages" not in said


def test_the_advice_undoes_a_huge_page_size_that_is_not_meant() -> None:
    found = advise(PoolState(2 * MB, 0, 0, 0, 0, 0), 72, 0, GB, 2 * MB, 64 * GB)
    assert found["postgresql_conf"] == ["huge_pages = on", "huge_page_size = 2MB"]


def test_a_larger_pool_is_not_made_smaller() -> None:
    found = advise(PoolState(2 * MB, 150, 120, 0, 0, 0), 72, 0, 2 * MB, 2 * MB, 64 * GB)
    assert (found["sysctl"], found["unclaimed_pages"]) == (["vm.nr_hugepages = 150"], 48)


def test_what_does_not_fit_the_memory_is_no_advice_for_the_boot() -> None:
    found = advise(PoolState(2 * MB, 0, 0, 0, 0, 0), 534_404, 0, 2 * MB, 2 * MB, 24 * GB)
    assert (found["fits_memory"], found["sysctl"], found["kernel_command_line"]) == (False, [], None)


@pytest.mark.parametrize(("own", "fits"), [(0, False), (20, True)])
def test_pools_of_other_sizes_leave_less_for_the_boot(own: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 pages of 1 GB of 24: together with 8 GB more the machine might not boot, unless the server leaves them."""

    def held(page: int) -> int:
        return own if page == GB else 0

    monkeypatch.setattr(plan, "meminfo", Mock(return_value=24 * GB))
    small, large = PoolState(2 * MB, 0, 0, 0, 0, 0), PoolState(GB, 20, 0, 0, 0, 0)
    situation: Any = SimpleNamespace(
        server=server(pages={2 * MB: 4096}), pools=[small, large], default=2 * MB, own=held
    )
    assert plan._advice(situation, small)["fits_memory"] == fits


def test_the_published_listing_of_1_gb_pages_is_66_pages_for_64_gb() -> None:
    """Total 100, Free 97, Rsvd 63 (Percona, "Benchmark PostgreSQL With Linux HugePages", 2018).

    Three were touched and 63 promised. PostgreSQL 18.6 requests 67,103 MB with 64 GB of buffers: 66 pages, too
    (`tests/integration/test_hugepages.py` queries it).
    """
    pool = PoolState(GB, 100, 97, 63, 0, 0)
    assert pool.in_use == 66
    assert pool.target(66, own=66) == 66  # its own pages are not counted twice
    found = advise(pool, 66, 66, GB, 2 * MB, 256 * GB)
    assert (found["pool_pages"], found["unclaimed_pages"]) == (100, 34)
    assert found["kernel_command_line"] == "hugepagesz=1G hugepages=100"


def test_the_published_pool_of_512_mb_pages_has_7_too_many() -> None:
    """17 pages, by 1 + 8192 MB ÷ 512 MB, for shared_buffers of 4800 MB (F. Pachot, PGIO on Ampere A1, 2021)."""
    page = 512 * MB
    assert 1 + 8192 * MB // page == 17
    needed = -(-4_972 * MB // page)  # what 18.6 requests
    assert needed == 10
    pool = PoolState(page, 17, 17, 0, 0, 0)
    found = advise(pool, needed, 0, page, page, 24 * GB)
    assert (found["pool_pages"], found["unclaimed_pages"]) == (17, 7)
    assert 7 * page == 3584 * MB
