"""The doctor's collectors, on planted trees."""

# pyright: reportPrivateUsage=false
import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.elf_files import CASAL, LDADDAL, LDAPR, LDAXR, LDR, STLXR, SWPA, elf, words
from tests.unit.planted import plant

from octavo.binary.read import read_one
from octavo.doctor import examine as examine_module
from octavo.doctor.collect import gather, processes, stopped, storage
from octavo.doctor.collect.atomics import atomics_of
from octavo.doctor.collect.find import Listener, listeners
from octavo.doctor.collect.host import host_facts
from octavo.doctor.collect.live import LiveCounters, ServerCounters, live_facts
from octavo.doctor.collect.processes import counts_huge_pages, memory_limit, process_facts
from octavo.doctor.collect.server import setting_fact
from octavo.doctor.collect.storage import storage_facts
from octavo.doctor.facts import Fact, Facts
from octavo.errors import HostError
from octavo.host.block_devices import disks_below
from octavo.host.diskstats import DiskTotals
from octavo.postgres.own_connection import NO_PASSWORDS

MB = 1024**2


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (("shared_buffers", "16384", "8kB", "integer", "default"), 128 * MB),
        (("shared_buffers", "4096", "32kB", "integer", "default"), 128 * MB),
        (("max_wal_size", "1024", "MB", "integer", "default"), 1024 * MB),
        (("wal_segment_size", "16777216", "B", "integer", "default"), 16 * MB),
        (("checkpoint_timeout", "300", "s", "integer", "default"), 300.0),
        (("random_page_cost", "4", None, "real", "default"), 4.0),
        (("max_connections", "100", None, "integer", "default"), 100),
        (("shared_memory_size_in_huge_pages", "-1", None, "integer", "default"), -1),
        (("full_page_writes", "on", None, "bool", "default"), True),
        (("huge_pages", "try", None, "enum", "default"), "try"),
    ],
)
def test_a_row_of_pg_settings(row: Any, value: Any) -> None:
    fact = setting_fact(*row)
    assert (fact.value, type(fact.value)) == (value, type(value))
    assert row[0] in fact.source


HOST = {
    "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 600 kB\nHugepagesize: 2048 kB\nSwapTotal: 0 kB\n",
    "proc/sys/vm/overcommit_memory": "2\n", "proc/sys/vm/swappiness": "60\n",
    "proc/sys/kernel/numa_balancing": "1\n", "proc/cpuinfo": "processor: 0\nFeatures\t: fp asimd atomics\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/node/node0/meminfo": "", "sys/devices/system/node/node1/meminfo": "",
    **{f"sys/kernel/mm/hugepages/hugepages-2048kB/{name}": "7\n" for name in (
        "nr_hugepages", "free_hugepages", "resv_hugepages", "surplus_hugepages", "nr_overcommit_hugepages")},
}  # fmt: skip


def test_the_host_of_a_planted_tree(tmp_path: Path) -> None:
    facts = Facts(host_facts(plant(tmp_path, HOST)))
    assert facts["host.memory.total_bytes"].value == 1000 * 1024
    assert facts["host.memory.total_bytes"].source.endswith("meminfo: MemTotal")
    assert "no such line" in facts["host.memory.commit_limit_bytes"].unknown
    assert facts["host.thp.enabled"].value == "madvise"
    assert facts["host.thp.defrag"].absent
    assert facts["host.cpu.governors"].value == ["performance", "powersave"]
    assert facts["host.cpu.lse"].value is True
    assert facts["host.numa.nodes"].value == 2
    plant(tmp_path, {"sys/devices/system/node/has_memory": "1\n"})
    assert Facts(host_facts(tmp_path))["host.numa.nodes"].value == 1
    assert facts["host.huge.pools"].value[0]["total"] == 7
    assert facts["host.huge.at_boot"].value == []


def test_a_host_that_says_nothing_gives_reasons(tmp_path: Path) -> None:
    facts = Facts(host_facts(tmp_path))
    assert facts["host.memory.total_bytes"].unknown
    assert facts["host.huge.pools"].unknown
    assert facts["host.cpu.governors"].absent


def test_what_a_file_of_the_kernel_should_not_say_is_unknown(tmp_path: Path) -> None:
    root = plant(tmp_path, HOST | {"proc/sys/vm/swappiness": "sixty\n"})
    assert "'sixty'" in Facts(host_facts(root))["host.swap.swappiness"].unknown


def test_the_processes_of_a_server(tmp_path: Path) -> None:
    status = "Name:\tpostgres\nVmPTE:\t 100 kB\nVmSwap:\t 4 kB\nRssAnon:\t 50 kB\nHugetlbPages:\t 2048 kB\n"
    proc = plant(
        tmp_path,
        {f"{pid}/status": status for pid in (10, 11)}
        | {"10/task/10/children": "11 ", "10/oom_score_adj": "-900\n", "11/oom_score_adj": "0\n",
           "10/limits": "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536  65536  bytes\n",
           "10/cgroup": "0::/a/b\n", "self/mountinfo": f"41 31 0:38 / {tmp_path}/cg rw - cgroup2 cgroup2 rw\n",
           "cg/a/b/memory.max": "max\n", "cg/a/memory.max": "1048576\n"},
    )  # fmt: skip
    facts = Facts(process_facts(10, proc))
    assert facts["host.process.page_tables_bytes"].value == 200 * 1024
    assert facts["host.process.huge_bytes"].value == 2 * MB
    assert facts["host.process.median_own_bytes"].value == 100 * 1024  # all of RssAnon may be the postmaster's
    assert (facts["host.process.postmaster_oom_adj"].value, facts["host.process.children_oom_adj"].value) == (-900, 0)
    assert facts["host.process.memlock_bytes"].value == 65536
    limit = facts["host.memory.group_limit_bytes"]
    assert limit.value == MB and limit.source.endswith("/a/memory.max")
    assert facts["host.memory.group_counts_huge_pages"].value is False
    options = "rw,nsdelegate,memory_recursiveprot,memory_hugetlb_accounting"
    plant(proc, {"self/mountinfo": f"41 31 0:38 / {tmp_path}/cg rw - cgroup2 cgroup2 {options}\n"})
    assert counts_huge_pages(limit, proc).value is True
    # Version 2 is mounted, but memory is limited by version 1, which never charges them.
    old = f"42 31 0:39 / {tmp_path}/cg/a rw - cgroup cgroup rw,memory\n"
    plant(proc, {"self/mountinfo": (proc / "self/mountinfo").read_text() + old})
    assert counts_huge_pages(limit, proc).value is False
    assert counts_huge_pages(Fact("host.memory.group_limit_bytes", None), proc).absent


def test_what_a_child_shares_with_the_postmaster_since_the_fork_is_not_its_own(tmp_path: Path) -> None:
    """The postmaster has 6 MB, 1 MB of them in swap; the busy session's 900 MB are not those of an idle one."""
    anonymous = {10: 5, 11: 4, 12: 7, 13: 8, 14: 900}
    swapped = {10: 1, 11: 1, 12: 1, 13: 4, 14: 0}
    status = "Name:\tpostgres\nVmPTE:\t {} kB\nVmSwap:\t {} kB\nRssAnon:\t {} kB\n"
    proc = plant(
        tmp_path,
        {f"{pid}/status": status.format(100, swapped[pid] * 1024, own * 1024) for pid, own in anonymous.items()}
        | {"10/task/10/children": "11 12 13 14 "},
    )
    facts = Facts(process_facts(10, proc))
    assert facts["host.process.swap_bytes"].value == 4 * MB  # one that all share, and three of one
    found = facts["host.process.median_own_bytes"]
    assert found.value == (100 + 1536) * 1024  # 0, 1, 2 and 894 MB beyond the postmaster's
    assert "of 4 children" in found.source
    plant(tmp_path, {"10/task/10/children": ""})
    assert "no child" in Facts(process_facts(10, proc))["host.process.median_own_bytes"].unknown


def test_a_server_that_ends_while_it_is_examined_has_no_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory is there when it is looked for, and gone when it is read."""

    def exists(_: Path) -> bool:
        return True

    monkeypatch.setattr(Path, "exists", exists)
    assert Facts(process_facts(10, tmp_path))["host.process.count"].value == 0


def test_no_limit_is_known_to_be_none(tmp_path: Path) -> None:
    proc = plant(tmp_path, {"self/cgroup": "0::/\n", "self/mountinfo": ""})
    fact = memory_limit(None, proc)
    assert fact.is_known and fact.value is None


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cg/a/cpu.max": "250000 100000\n", "cg/cpu.max": "max 100000\n"}, 3),
        ({"cg/a/cpu.max": "max 100000\n"}, None),
        ({"cg/a/cpu.cfs_quota_us": "50000\n", "cg/a/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cg/a/cpu.cfs_quota_us": "-1\n", "cg/a/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_the_cpus_that_a_group_may_use(tmp_path: Path, files: dict[str, str], cores: int | None) -> None:
    mount = "cgroup cgroup rw,cpu" if any("cfs" in name for name in files) else "cgroup2 cgroup2 rw"
    group = "4:cpu,cpuacct:/a\n" if "cpu" in mount else "0::/a\n"
    proc = plant(
        tmp_path, {"self/cgroup": group, "self/mountinfo": f"41 31 0:38 / {tmp_path}/cg rw - {mount}\n"} | files
    )
    fact = processes.cpu_limit(None, proc)
    assert fact.is_known and fact.value == cores


def test_the_cpus_that_a_process_is_pinned_to() -> None:
    one = min(os.sched_getaffinity(0))
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        assert processes.allowed_cpus(child.pid).value == len(os.sched_getaffinity(0))
        os.sched_setaffinity(child.pid, {one})
        assert processes.allowed_cpus(child.pid).value == 1
    finally:
        child.kill()
        child.wait()
    assert "No such process" in processes.allowed_cpus(child.pid).unknown


def test_a_directory_of_wal_that_is_elsewhere_is_not_followed(tmp_path: Path) -> None:
    root, wal = plant(tmp_path / "root", {"proc/self/mountinfo": ""}), tmp_path / "pg_wal"
    assert storage.pg_wal_elsewhere(tmp_path, root).unknown
    wal.symlink_to("/nowhere")
    assert storage.pg_wal_elsewhere(tmp_path, root).value is True
    wal.unlink()
    wal.mkdir()
    assert storage.pg_wal_elsewhere(tmp_path, root).value is False
    plant(root, {"proc/self/mountinfo": f"41 31 0:38 / {wal} rw - ext4 x rw\n"})
    assert storage.pg_wal_elsewhere(tmp_path, root).value is True
    (tmp_path / "link").symlink_to(tmp_path)  # as /var/lib/postgresql, where the data are on another disk
    assert storage.pg_wal_elsewhere(tmp_path / "link", root).value is True


def test_a_filesystem_that_does_not_say_its_block_is_not_believed(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    where = f"{os.major(number)}:{os.minor(number)}"
    for kind, known in (("nfs4", False), ("ext4", True)):
        plant(tmp_path, {"proc/self/mountinfo": f"41 31 {where} / / rw - {kind} x rw\n"})
        facts = Facts(storage_facts(tmp_path, tmp_path))
        assert facts["host.fs.type"].value == kind
        assert facts["host.fs.block_bytes"].is_known is known
        assert facts["host.device.name"].unknown


def test_a_query_that_took_too_long_is_not_repeated_while_a_server_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[list[Fact]] = []
    stopped = Fact("server.databases_bytes", unknown="took longer than 1s, so it was stopped")

    def of_server(_connection: object, _seconds: float, before: list[Fact]) -> Facts:
        known.append(before)
        return Facts([stopped])

    monkeypatch.setattr(gather, "of_server", of_server)
    server = examine_module.ExaminedServer("x", SimpleNamespace(waited=0.0))  # pyright: ignore[reportArgumentType]
    for _ in range(2):
        assert server.facts(0.0)["server.databases_bytes"] == stopped
    assert known[0] == [] and known[1][0] == stopped
    assert [fact.name for fact in known[1]] == list(gather.DEAR)


@pytest.mark.parametrize(("printed", "size"), [("262144", 256 * MB), ("-1", -1)])
def test_a_stopped_cluster_has_its_own_memory_of_autovacuum(
    monkeypatch: pytest.MonkeyPatch, printed: str, size: int
) -> None:
    """Otherwise maintenance_work_mem, which may be large for one index, would be counted for each worker."""
    words = {"autovacuum_work_mem": printed, "server_version": "18.1", "huge_pages": "try", "wal_recycle": "off"}

    @contextmanager
    def asking(_pgdata: Path, _bindir: Path | None) -> Generator[tuple[Callable[[str, int], str], str], None, None]:
        yield lambda name, _size: words.get(name, "8"), "postgres -C"

    monkeypatch.setattr(stopped, "asking", asking)
    facts = Facts(stopped.stopped_facts(Path("D"), None))
    assert facts["setting.autovacuum_work_mem"].value == size
    assert facts["setting.maintenance_work_mem"].value == 8 * 1024
    assert facts["setting.wal_recycle"].value is False


def test_live_facts_are_differences() -> None:
    before = LiveCounters(10.0, DiskTotals(100, 1000, 0, 0, busy_ms=500), 5, ServerCounters(10, 80, 0), 1000)
    used = DiskTotals(300, 9000, 4, 40, busy_ms=2000)
    after = LiveCounters(12.0, used, 25, ServerCounters(110, 880, 200), 3000)
    facts = Facts(live_facts(before, after, "vda"))
    assert facts["live.device.reads_per_second"].value == 100.0
    assert facts["live.server.reads_per_second"].value == 50.0
    assert facts["live.server.fetched_bytes_per_second"].value == 1000.0
    assert facts["live.server.scan_bytes_per_second"].value == 100.0
    assert facts["live.server.checkpoint_bytes_per_second"].absent
    assert facts["live.server.long_transactions"].unknown
    assert facts["live.device.busy_share"].value == 0.75
    assert facts["live.swapped_pages_per_second"].value == 10.0
    none = Facts(live_facts(LiveCounters(10.0, None, None, None, None), after, None))
    for name in ("device.reads", "server.reads", "swapped_pages", "server.fetched_bytes"):
        assert none[f"live.{name}_per_second"].unknown
    # Statistics that were reset meanwhile do not give a negative rate.
    assert (
        Facts(live_facts(after, LiveCounters(14.0, None, None, ServerCounters(0, 0), 0), None))[
            "live.server.reads_per_second"
        ].value
        == 0
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (words(LDADDAL, SWPA, CASAL), (3, 0)),
        (words(LDAXR, STLXR), (0, 2)),
        (words(LDR, LDAPR, 0xD503201F), (0, 0)),
        (words(LDAXR, STLXR, CASAL, LDR), (1, 2)),
        # Not aligned: not an instruction.
        (b"\0" + words(CASAL) + b"\0\0\0", (0, 0)),
        (b"", (0, 0)),
    ],
)
def test_atomic_instructions_are_counted(tmp_path: Path, code: bytes, expected: tuple[int, int]) -> None:
    program = tmp_path / "postgres"
    program.write_bytes(elf(code))
    found = atomics_of(read_one(program))
    assert found and (found["lse"], found["exclusive"]) == expected


def test_other_programs_are_none_of_aarch64(tmp_path: Path) -> None:
    program = tmp_path / "x"
    program.write_bytes(elf(b"", machine=62))
    assert atomics_of(read_one(program)) is None
    for content in (b"", b"\x7fELF", b"#!/bin/sh\n" * 20):
        program.write_bytes(content)
        with pytest.raises(HostError):
            read_one(program)


def test_servers_are_found_by_their_sockets(tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as other:
        server.bind(str(tmp_path / ".s.PGSQL.5433"))
        (tmp_path / "x,example.invalid").mkdir()
        other.bind(str(tmp_path / "x,example.invalid/.s.PGSQL.5433"))
        rows = [
            f"0: 2 0 00010000 0001 01 1 {tmp_path}/.s.PGSQL.5433",
            f"0: 2 0 00010000 0001 01 1 {tmp_path}/.s.PGSQL.5434",  # removed, or in another container
            f"0: 2 0 00000000 0001 03 1 {tmp_path}/.s.PGSQL.5433",  # a connection
            "0: 2 0 00010000 0001 01 1 /run/dbus/system_bus_socket",
            f"0: 2 0 00010000 0001 01 1 {tmp_path}/x,example.invalid/.s.PGSQL.5433",  # two hosts for libpq
            "0: 2 0 00010000 0001 01 1",
        ]
        plant(tmp_path, {"net/unix": "Num RefCount Protocol Flags Type St Inode Path\n" + "\n".join(rows)})
        (found,) = listeners(tmp_path)
    assert (found.directory, found.port, found.owner) == (str(tmp_path), 5433, os.geteuid())


def test_a_directory_of_anybody_adds_nothing_to_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    from psycopg.conninfo import conninfo_to_dict

    asked: list[dict[str, Any]] = []

    def connect(dsn: str) -> SimpleNamespace:
        asked.append(conninfo_to_dict(dsn))
        return SimpleNamespace(connection=SimpleNamespace())

    monkeypatch.setattr(examine_module, "_connect", connect)
    examine_module._connect_to(Listener("/x' port=1 sslkey=/etc/shadow", 5432, os.geteuid()))
    assert asked[0]["host"] == "/x' port=1 sslkey=/etc/shadow"
    assert asked[0]["hostaddr"] == ""  # that of the environment is another server's
    assert set(asked[0]) <= {"host", "hostaddr", "port", "user", "dbname", "passfile", "password"}
    assert (asked[0]["passfile"], asked[0]["password"]) == (NO_PASSWORDS, "")  # whoever listens there gets none


def test_disks_below_lvm_and_raid_are_found(tmp_path: Path) -> None:
    """dm-0 on md0 on partitions of two disks of one kind."""
    devices = "sys/devices"
    root = plant(
        tmp_path,
        {f"{devices}/{name}/size": "2048\n" for name in ("dm-0", "md0")}
        | {f"{devices}/{name}/device/{file}": f"{text}\n" for name in ("sda", "sdb")
           for file, text in (("vendor", "ATA     "), ("model", "SAMSUNG"))}
        | {f"{devices}/{name}/{name}1/partition": "1\n" for name in ("sda", "sdb")}
        | {f"{devices}/md0/md/{name}": text for name, text in (
            ("level", "raid5\n"), ("raid_disks", "3\n"), ("chunk_size", "524288\n"))}
        | {f"{devices}/md0/queue/optimal_io_size": "1048576\n"},
    )  # fmt: skip
    for above, below in (("dm-0", "md0"), ("md0", "sda/sda1"), ("md0", "sdb/sdb1")):
        slaves = root / devices / above / "slaves"
        slaves.mkdir(exist_ok=True)
        (slaves / below.rpartition("/")[2]).symlink_to(root / devices / below)
    disks = disks_below(root / devices / "dm-0")
    assert [disk.name for disk in disks] == ["sda", "sdb"]
    facts = Facts([*storage._make(disks), *storage._raid(root / devices / "dm-0")])
    assert (facts["host.device.vendor"].value, facts["host.device.model"].value) == ("ATA", "SAMSUNG")
    assert (facts["host.raid.name"].value, facts["host.raid.level"].value) == ("md0", "raid5")
    assert facts["host.raid.stripe_bytes"].value == 2 * facts["host.raid.chunk_bytes"].value
    (root / devices / "sdb/device/model").write_text("INTEL\n")
    assert Facts(storage._make(disks))["host.device.model"].absent


@pytest.mark.parametrize(
    ("models", "reported", "known"),
    [
        (("QEMU HARDDISK", "QEMU HARDDISK"), "1", None),
        (("QEMU HARDDISK", "ST4000NM0035"), "1", True),
        (("ST4000NM0035", "ST4000NM0035"), "1", True),
        (("QEMU HARDDISK", "QEMU HARDDISK"), "0", False),
    ],
)
def test_what_a_virtual_disk_says_of_rotating_is_not_believed(
    tmp_path: Path, models: tuple[str, str], reported: str, known: bool | None
) -> None:
    root = plant(
        tmp_path,
        {"dm-0/queue/rotational": f"{reported}\n"}
        | {f"{name}/queue/rotational": f"{reported}\n" for name in ("sda", "sdb")}
        | {f"{name}/device/model": f"{model}\n" for name, model in zip(("sda", "sdb"), models, strict=True)},
    )
    (root / "dm-0/slaves").mkdir()
    for name in ("sda", "sdb"):
        (root / "dm-0/slaves" / name).symlink_to(root / name)
    fact = storage._rotational(root / "dm-0", [root / "sda", root / "sdb"])
    assert fact.value is known
    assert (known is not None) or "a virtual disk (sda, sdb) reports 1" in fact.unknown


@pytest.mark.parametrize(
    ("files", "platform"),
    [({"sys_vendor": "Amazon EC2"}, "amazon"), ({"sys_vendor": "Google"}, "google"),
     ({"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}, "azure"),
     ({"sys_vendor": "Microsoft Corporation"}, None), ({}, None)],
)  # fmt: skip
def test_the_platform_is_what_the_firmware_says(tmp_path: Path, files: dict[str, str], platform: str | None) -> None:
    root = plant(tmp_path, HOST | {f"sys/class/dmi/id/{name}": f"{text}\n" for name, text in files.items()})
    assert Facts(host_facts(root))["host.platform"].value == platform


def test_who_dies_first_is_who_has_the_largest_score(tmp_path: Path) -> None:
    def stat(pid: int, name: str) -> str:
        return f"{pid} ({name}) S 1 " + "0 " * 60 + "\n"

    proc = plant(
        tmp_path,
        {"10/stat": stat(10, "postgres"), "11/stat": stat(11, "postgres"), "12/stat": stat(12, "java"),
         "10/oom_score": "670\n", "11/oom_score": "700\n", "12/oom_score": "690\n"},
    )  # fmt: skip
    first = processes._first_to_die(10, [10, 11], proc).value
    assert first == {"name": "postgres", "pid": 11, "score": 700, "whose": "server", "postmaster_score": 670}
    assert processes._first_to_die(10, [10], proc).value["whose"] == "other"
