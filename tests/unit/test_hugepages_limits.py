"""Obstacles to huge pages, on planted trees: hugetlb groups, containers, memory, settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.planted import plant
from tests.unit.test_hugepages import GB, MB, meminfo, server

from octavo.hugepages import limits
from octavo.hugepages.groups import group_limits, tightest
from octavo.hugepages.needed import ServerPages
from octavo.hugepages.pool import PoolState

NOBODY: Mapping[str, str] = {}


def find(
    root: Path, pool: PoolState, of: ServerPages | None = None, environment: Mapping[str, str] = NOBODY
) -> dict[str, Any]:
    plant(
        root,
        {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": "", **meminfo()} if not (root / "proc").exists() else {},
    )
    return {one.limit: one for one in limits.find_limits(of, pool, 0, root, environment)}


def group_tree(root: Path, kind: str, own: str, files: Mapping[str, str], mount_root: str = "/") -> Path:
    """A hierarchy mounted at ROOT/mnt, with the group `own` in it."""
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
    # Memory that a server has mapped and not touched is not used yet, and cannot be deducted.
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


def test_what_others_use_in_an_outer_group_is_not_taken_for_the_servers(tmp_path: Path) -> None:
    """The server has mapped 144 MB and touched 10. Of 200 MB in the outer group 190 are others': 110 are left."""
    files = {
        "a/hugetlb.2MB.max": str(160 * MB), "a/hugetlb.2MB.current": str(10 * MB),
        "hugetlb.2MB.max": str(300 * MB), "hugetlb.2MB.current": str(200 * MB),
    }  # fmt: skip
    group_tree(tmp_path, "cgroup2", "/a", files)
    pool = PoolState(2 * MB, 200, 100, 67, 0, 0)
    found = {one.limit: one for one in limits.find_limits(server(), pool, 72, tmp_path, NOBODY)}
    assert found["hugetlb group"].found.startswith(f"{tmp_path}/mnt allows 300 MB (taken: 200 MB)")


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
    # A fiftieth of the total, 164,000 kB, is reserved for the rest of the machine.
    assert "144 MB more" in found["memory"].found and "97.7 MB of memory" in found["memory"].found
    assert "memory" not in find(tmp_path, PoolState(2 * MB, 50, 50, 0, 0, 0), server())
    # 60 surplus pages in use, which only become persistent, and as many additional ones.
    assert "144 MB more" in find(tmp_path, PoolState(2 * MB, 60, 0, 0, 60, 0), server())["memory"].found


@pytest.mark.parametrize(("committed", "severity"), [(1_000_000, "note"), (3_990_000, "error")])
def test_strict_overcommit_counts_the_pool_off(tmp_path: Path, committed: int, severity: str) -> None:
    plant(
        tmp_path,
        {"proc/self/cgroup": "", "proc/self/mountinfo": "", "proc/sys/vm/overcommit_memory": "2\n",
         "proc/sys/vm/overcommit_ratio": "50\n", **meminfo(CommitLimit=4_000_000, Committed_AS=committed)},
    )  # fmt: skip
    assert find(tmp_path, PoolState(2 * MB, 0, 0, 0, 0, 0), server())["overcommit"].severity == severity


def test_a_commit_limit_in_kbytes_does_not_know_of_the_pool(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {"proc/self/cgroup": "", "proc/self/mountinfo": "", "proc/sys/vm/overcommit_memory": "2\n",
         "proc/sys/vm/overcommit_ratio": "0\n", **meminfo(CommitLimit=4_000_000, Committed_AS=1_000_000)},
    )  # fmt: skip
    found = find(tmp_path, PoolState(2 * MB, 0, 0, 0, 0, 0), server())["overcommit"]
    assert (found.severity, found.fix) == ("warning", "lower vm.overcommit_kbytes by as much")
    assert "stays as it is, although the pool takes 144 MB" in found.consequence


def test_shared_memory_by_sysv_never_gets_huge_pages(tmp_path: Path) -> None:
    found = find(tmp_path, PoolState(2 * MB, 0, 0, 0, 0, 0), server(shared_memory_type="sysv"))
    assert next(iter(found)) == "shared_memory_type"  # errors come first
    assert found["memlock"].severity == "note"


def test_a_group_half_full_of_the_servers_own_pages_is_found_too_small(tmp_path: Path) -> None:
    """Of 58 MB mapped 10 are touched: the other 48 do not fit into the 18 that the group has left."""
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
    assert "pages of 1 GB" in find(tmp_path, pool, server(huge_page_size=GB))["huge_page_size"].found
    assert "huge_page_size" not in find(tmp_path, pool, server())
