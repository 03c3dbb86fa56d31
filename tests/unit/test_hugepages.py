"""Huge pages on planted trees: the pool's arithmetic, groups, limits, what boot sets, what the postmaster shows."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.planted import plant

from octavo.errors import HostError, UsageError
from octavo.hugepages import limits, needed, seen
from octavo.hugepages.advice import advise
from octavo.hugepages.boot import at_boot
from octavo.hugepages.groups import group_limits, tightest
from octavo.hugepages.needed import Server
from octavo.hugepages.pool import PoolState, default_page, read_pool, read_pools
from octavo.hugepages.postmaster_files import last_options, refuse_running

KB, MB, GB = 1024, 1024**2, 1024**3
NOBODY: Mapping[str, str] = {}


def pool_files(
    page: int, total: int, free: int, reserved: int = 0, surplus: int = 0, below: str = ""
) -> dict[str, str]:
    directory = f"{below or 'sys/kernel/mm'}/hugepages/hugepages-{page // KB}kB"
    numbers = {"nr": total, "free": free, "resv": reserved, "surplus": surplus, "nr_overcommit": 0}
    return {f"{directory}/{name}_hugepages": f"{number}\n" for name, number in numbers.items()}


def meminfo(**kilobytes: int) -> dict[str, str]:
    lines = {"MemTotal": 8_200_000, "MemFree": 4_000_000, "MemAvailable": 8_000_000, "Hugepagesize": 2048, **kilobytes}
    return {"proc/meminfo": "".join(f"{name}: {value} kB\n" for name, value in lines.items())}


def server(**changes: Any) -> Server:
    facts: dict[str, Any] = {
        "source": "a test", "version": "18.6", "shared_memory": 143 * MB, "shared_buffers": 128 * MB,
        "huge_pages": "try", "huge_page_size": 0, "shared_memory_type": "mmap", "max_connections": 100,
        "pages": {2 * MB: 72, GB: 1},
    }  # fmt: skip
    return Server(**{**facts, **changes})


def find(
    root: Path, pool: PoolState, of: Server | None = None, environment: Mapping[str, str] = NOBODY
) -> dict[str, Any]:
    plant(
        root,
        {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": "", **meminfo()} if not (root / "proc").exists() else {},
    )
    return {one.limit: one for one in limits.find_limits(of, pool, 0, root, environment)}


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
    assert target == others + wanted  # the server's own pages come free when it is restarted
    after = max(pool.persistent, target)
    assert pool.short(wanted, own) == after - pool.persistent
    assert after - others >= wanted


def test_what_a_running_server_needs_is_counted_for_every_size() -> None:
    row = {
        "version": "18.6 (Debian 18.6-1)", "shared_memory": 150 * MB, "in_huge_pages": 75, "shared_buffers": 128 * MB,
        "huge_pages": "try", "huge_pages_status": "off", "huge_page_size": 0, "shared_memory_type": "mmap",
        "max_connections": 100, "connections": 3, "pending": None,
    }  # fmt: skip
    found = needed.running(row, [64 * KB, 2 * MB, GB], 2 * MB, 42, "")
    assert found.pages == {64 * KB: 2400, 2 * MB: 75, GB: 1}
    assert (found.version, found.page(2 * MB), found.pending) == ("18.6", 2 * MB, ())
    # PostgreSQL counts one page more than it maps when its memory is a multiple of the page; its count is taken.
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
    found = seen.look(42, postmaster(tmp_path, smaps=True))
    assert found is not None
    assert (found.mapping, found.page, found.huge) == (24 * MB, 2 * MB, 10 * MB)
    assert (found.tables, found.processes) == (160 * KB, 2)  # the third has ended meanwhile
    assert found.parts == {
        seen.FILES: MB, seen.SHARED: 24 * MB, seen.OTHER: 48 * KB, seen.PRIVATE: 644 * KB,
    }  # fmt: skip
    said = found.as_dict(12, 2 * MB)
    assert (said["vm_peak_pages"], said["over_asked_pages"], said["over_asked_bytes"]) == (40, 28, 56 * MB)


def test_without_smaps_the_peak_is_still_there(tmp_path: Path) -> None:
    found = seen.look(42, postmaster(tmp_path, smaps=False))
    assert found is not None
    assert (found.peak, found.mapping, found.parts) == (83558 * KB, None, None)
    assert seen.look(7, tmp_path) is None


def group_tree(root: Path, kind: str, own: str, files: Mapping[str, str], mount_root: str = "/") -> Path:
    """A hierarchy mounted at ROOT/mnt, and the group `own` in it."""
    options = "rw,hugetlb" if kind == "cgroup" else "rw,nsdelegate"
    line = f"41 31 0:38 {mount_root} {root}/mnt rw,relatime - {kind} {kind} {options}\n"
    other = f"40 31 0:37 / {root}/cpu rw - cgroup cgroup rw,cpu\n"
    controllers = "7:cpu:/\n6:hugetlb" if kind == "cgroup" else "0:"
    return plant(
        root,
        {"proc/self/cgroup": f"{controllers}:{own}\n", "proc/self/mountinfo": other + line, **meminfo()}
        | {f"mnt/{name}": f"{text}\n" for name, text in files.items()},
    )


@pytest.mark.parametrize("kind", ["cgroup", "cgroup2"])
def test_the_tightest_group_above_a_process_is_found(tmp_path: Path, kind: str) -> None:
    limit, usage, none = (
        ("limit_in_bytes", "usage_in_bytes", "9223372036852678656") if kind == "cgroup" else ("max", "current", "max")
    )
    files = {
        f"a/b/hugetlb.2MB.{limit}": none, f"a/b/hugetlb.2MB.{usage}": "0",
        f"a/b/hugetlb.2MB.rsvd.{limit}": str(16 * MB), f"a/b/hugetlb.2MB.rsvd.{usage}": str(10 * MB),
        f"a/hugetlb.2MB.{limit}": str(8 * MB), f"a/hugetlb.2MB.{usage}": str(2 * MB),
        f"a/hugetlb.1GB.{limit}": "0", f"a/hugetlb.1GB.{usage}": "0",
    }  # fmt: skip
    root = group_tree(tmp_path, kind, "/a/b", files)
    found = group_limits(2 * MB, proc=root / "proc")
    touched, reserved = tightest(found, reservations=False), tightest(found, reservations=True)
    assert touched is not None and reserved is not None
    assert (touched.group, touched.name, touched.limit) == (root / "mnt/a", f"hugetlb.2MB.{limit}", 8 * MB)
    # What a server has mapped and not touched is not used yet, and cannot be counted off.
    assert [touched.room(own * MB) for own in (0, 2, 50)] == [6 * MB, 8 * MB, 8 * MB]
    assert (reserved.group, reserved.room(0)) == (root / "mnt/a/b", 6 * MB)
    assert [one.limit for one in group_limits(GB, proc=root / "proc")] == [0]


@pytest.mark.parametrize(
    ("own", "mount_root"), [("/", "/"), ("/../..", "/"), ("/docker/x", "/docker/x"), ("/y", "/docker/x")]
)
def test_in_a_container_the_mounted_root_is_looked_at(tmp_path: Path, own: str, mount_root: str) -> None:
    root = group_tree(tmp_path, "cgroup2", own, {"hugetlb.2MB.max": "0", "hugetlb.2MB.current": "0"}, mount_root)
    assert [one.group for one in group_limits(2 * MB, proc=root / "proc")] == [root / "mnt"]


def test_a_group_that_allows_none_is_named_before_initdb_dies(tmp_path: Path) -> None:
    group_tree(tmp_path, "cgroup2", "/", {"hugetlb.2MB.max": "0", "hugetlb.2MB.current": "0"})
    pool = PoolState(2 * MB, 100, 100, 0, 0, 0)
    limit = find(tmp_path, pool)["hugetlb group"]
    assert limit.severity == "error"
    assert "SIGBUS" in limit.consequence and "initdb -c huge_pages=off" in limit.fix
    assert find(tmp_path, PoolState(2 * MB, 0, 0, 0, 0, 0))["hugetlb group"].severity == "warning"
    assert find(tmp_path, PoolState(2 * MB, 0, 0, 0, 0, 0), server())["hugetlb group"].severity == "error"


def test_a_group_with_room_for_the_server_is_no_finding(tmp_path: Path) -> None:
    group_tree(tmp_path, "cgroup2", "/", {"hugetlb.2MB.max": str(144 * MB), "hugetlb.2MB.current": "0"})
    pool = PoolState(2 * MB, 72, 72, 0, 0, 0)
    assert "hugetlb group" not in find(tmp_path, pool, server())
    assert "hugetlb group" in find(tmp_path, pool, server(pages={2 * MB: 73}))


def test_a_refused_reservation_is_a_refused_start_not_a_bus_error(tmp_path: Path) -> None:
    files = {
        "hugetlb.2MB.max": "0", "hugetlb.2MB.current": "0",
        "hugetlb.2MB.rsvd.max": "0", "hugetlb.2MB.rsvd.current": "0",
    }  # fmt: skip
    group_tree(tmp_path, "cgroup2", "/", files)
    found = find(tmp_path, PoolState(2 * MB, 100, 100, 0, 0, 0), server())
    assert "hugetlb group" not in found
    assert "ENOMEM" in found["hugetlb group, reservations"].consequence


def test_kubernetes_is_told_in_its_own_units(tmp_path: Path) -> None:
    pool = PoolState(2 * MB, 0, 0, 0, 0, 0)
    plant(tmp_path, {"var/run/secrets/kubernetes.io/token": "secret"})
    found = find(tmp_path, pool, server())
    assert "hugepages-2Mi: 144Mi" in found["Kubernetes"].fix
    assert "secret" not in str(found)
    assert limits.container_of(tmp_path / "nowhere", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "Kubernetes"


@pytest.mark.parametrize(
    ("file", "kind"), [(".dockerenv", "Docker"), ("run/.containerenv", "Podman"), ("run/systemd/container", "lxc")]
)
def test_containers_are_known_by_what_they_leave(tmp_path: Path, file: str, kind: str) -> None:
    assert limits.container_of(tmp_path, NOBODY) is None
    plant(tmp_path, {file: "lxc\n"})
    assert limits.container_of(tmp_path, NOBODY) == kind


def test_more_than_the_memory_is_an_error(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/self/cgroup": "", "proc/self/mountinfo": "", **meminfo(MemAvailable=264_000)})
    found = find(tmp_path, PoolState(2 * MB, 0, 0, 0, 0, 0), server())
    assert found["memory"].severity == "error"
    # A fiftieth of all, 164,000 kB, is left to the rest of the machine.
    assert "144 MB more" in found["memory"].found and "97.7 MB of memory" in found["memory"].found
    assert "memory" not in find(tmp_path, PoolState(2 * MB, 50, 50, 0, 0, 0), server())


@pytest.mark.parametrize(("committed", "severity"), [(1_000_000, "note"), (3_990_000, "error")])
def test_strict_overcommit_counts_the_pool_off(tmp_path: Path, committed: int, severity: str) -> None:
    plant(
        tmp_path,
        {"proc/self/cgroup": "", "proc/self/mountinfo": "", "proc/sys/vm/overcommit_memory": "2\n",
         "proc/sys/vm/overcommit_ratio": "50\n", **meminfo(CommitLimit=4_000_000, Committed_AS=committed)},
    )  # fmt: skip
    assert find(tmp_path, PoolState(2 * MB, 0, 0, 0, 0, 0), server())["overcommit"].severity == severity


def test_shared_memory_by_sysv_never_gets_huge_pages(tmp_path: Path) -> None:
    found = find(tmp_path, PoolState(2 * MB, 0, 0, 0, 0, 0), server(shared_memory_type="sysv"))
    assert next(iter(found)) == "shared_memory_type"  # errors come first
    assert found["memlock"].severity == "note"


@pytest.mark.parametrize(
    ("files", "pages", "said_by"),
    [
        ({}, None, ""),
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
    ],
)
def test_what_the_next_boot_sets(tmp_path: Path, files: dict[str, str], pages: int | None, said_by: str) -> None:
    found = at_boot(2 * MB, 2 * MB, plant(tmp_path, files))
    assert (found.pages if found else None) == pages
    assert found is None or said_by in found.said_by


def test_other_sizes_are_set_on_the_command_line_only(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/cmdline": "hugepagesz=1G hugepages=2\n", "etc/sysctl.conf": "vm.nr_hugepages=5\n"})
    found = at_boot(GB, 2 * MB, root)
    assert found is not None and found.pages == 2


def test_the_advice_names_the_size_where_it_is_not_the_default() -> None:
    small = advise(PoolState(2 * MB, 0, 0, 0, 0, 0), 72, 0, server(), 2 * MB, 64 * GB)
    large = advise(PoolState(GB, 0, 0, 0, 0, 0), 3, 0, server(), 2 * MB, 64 * GB)
    assert small["sysctl"] == ["vm.nr_hugepages = 72"]
    assert small["postgresql_conf"] == ["huge_pages = on"]
    assert large["sysctl"] == []
    assert large["kernel_command_line"] == "hugepagesz=1G hugepages=3"
    assert large["postgresql_conf"] == ["huge_pages = on", "huge_page_size = 1GB"]
    assert large["boot_only"] and not small["boot_only"]
    assert os.path.basename(small["sysfs"]) == "nr_hugepages"  # noqa: PTH119


def test_the_options_of_the_last_start_are_settings(tmp_path: Path) -> None:
    assert last_options(tmp_path) == []
    words = '"-D" "/data" "-c" "a=1" "--max-connections=7" "-p" "5433" "-B" "64" "--single" "-c" "b=x y"'
    (tmp_path / "postmaster.opts").write_text(f"/usr/bin/postgres {words}\n")
    found = last_options(tmp_path)
    assert found[::2] == ["-c"] * 4
    assert found[1::2] == ["a=1", "max_connections=7", "shared_buffers=64", "b=x y"]


def a_process(proc: Path, pid: int, name: str, parent: int, cwd: Path | None) -> None:
    plant(proc, {f"{pid}/stat": f"{pid} ({name}) S {parent} " + " ".join(["0"] * 48) + "\n"})
    if cwd is not None:
        (proc / str(pid) / "cwd").symlink_to(cwd)


@pytest.mark.parametrize(
    ("file", "processes", "words"),
    [
        (
            "7\n",
            {7: ("postgres", 1, "data"), 8: ("postgres", 7, "data")},
            r"a server \(pid 7\) runs on .*dbname=postgres",
        ),
        ("1\n", {7: ("postgres", 5, "data")}, r"a server \(pid 7\) runs"),  # 1 is what it is called in its container
        ("7\n", {7: ("postgres", 1, None)}, r"a server \(pid 7\) runs"),  # whose directory we may not see
        ("7\n", {7: ("postgres", 1, "other")}, r"names process 7, which cannot be seen.*remove that file"),
        ("7\n", {7: ("bash", 1, "data")}, r"names process 7, which cannot be seen"),
        (None, {7: ("postgres", 1, "data")}, r"a server \(pid 7\) runs"),
    ],
)
def test_a_server_that_runs_or_may_run_is_not_asked_by_its_directory(
    tmp_path: Path, file: str | None, processes: dict[int, tuple[str, int, str | None]], words: str
) -> None:
    for name in ("data", "other"):
        (tmp_path / name).mkdir()
    if file is not None:
        (tmp_path / "data/postmaster.pid").write_text(file)
    for pid, (name, parent, cwd) in processes.items():
        a_process(tmp_path / "proc", pid, name, parent, tmp_path / cwd if cwd else None)
    with pytest.raises(UsageError, match=words):
        refuse_running(tmp_path / "data", tmp_path / "proc")


def test_a_directory_that_nobody_runs_on_may_be_asked(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    a_process(tmp_path / "proc", 7, "postgres", 1, tmp_path)
    refuse_running(tmp_path / "data", tmp_path / "proc")


def test_the_advice_undoes_a_huge_page_size_that_is_not_meant() -> None:
    asked = server(huge_page_size=GB)
    found = advise(PoolState(2 * MB, 0, 0, 0, 0, 0), 72, 0, asked, 2 * MB, 64 * GB)
    assert found["postgresql_conf"] == ["huge_pages = on", "huge_page_size = 2MB"]


def test_a_larger_pool_is_not_made_smaller() -> None:
    found = advise(PoolState(2 * MB, 150, 120, 0, 0, 0), 72, 0, server(), 2 * MB, 64 * GB)
    assert (found["sysctl"], found["unclaimed_pages"]) == (["vm.nr_hugepages = 150"], 48)


def test_what_does_not_fit_the_memory_is_no_advice_for_the_boot() -> None:
    found = advise(PoolState(2 * MB, 0, 0, 0, 0, 0), 534_404, 0, server(), 2 * MB, 24 * GB)
    assert (found["fits_memory"], found["sysctl"], found["kernel_command_line"]) == (False, [], None)


def test_a_group_half_full_of_the_servers_own_pages_is_found_too_small(tmp_path: Path) -> None:
    """Of 58 MB mapped 10 are touched: the other 48 do not fit the 18 that the group has left."""
    group_tree(tmp_path, "cgroup2", "/", {"hugetlb.2MB.max": str(28 * MB), "hugetlb.2MB.current": str(10 * MB)})
    pool, running = PoolState(2 * MB, 29, 24, 24, 0, 0), server(pages={2 * MB: 29})
    (found,) = (one for one in limits.find_limits(running, pool, 29, tmp_path, NOBODY) if one.severity == "error")
    assert found.limit == "hugetlb group"
    (off,) = (
        one for one in limits.find_limits(server(pages={2 * MB: 29}, huge_pages="off"), pool, 29, tmp_path, NOBODY)
        if one.limit == "hugetlb group"
    )  # fmt: skip
    assert off.severity == "warning"


def test_settings_that_wait_for_a_restart_are_not_counted_and_said(tmp_path: Path) -> None:
    pool = PoolState(2 * MB, 72, 72, 0, 0, 0)
    said = find(tmp_path, pool, server(pending=("huge_pages", "max_connections")))["pending restart"]
    assert "(max_connections)" in said.found
    assert "pending restart" not in find(tmp_path, pool, server(pending=("huge_pages", "port")))


def test_a_server_that_asks_for_another_size_is_said(tmp_path: Path) -> None:
    pool = PoolState(2 * MB, 72, 72, 0, 0, 0)
    assert "pages of 1GB" in find(tmp_path, pool, server(huge_page_size=GB))["huge_page_size"].found
    assert "huge_page_size" not in find(tmp_path, pool, server())
