"""Each rule on planted facts: those of the well-tuned host with what the row changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from octavo.doctor.engine import Result, examine
from octavo.doctor.explain import explain, table
from octavo.doctor.facts import Facts, read_facts
from octavo.doctor.rules import RULES

kB, MB, GB = 1024, 1024**2, 1024**3
WELL_TUNED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "doctor_cases/well-tuned.json").read_text()
)["facts"]  # fmt: skip
SMALL_PAGES = {"setting.huge_pages": "try", "setting.huge_pages_status": "off", "host.process.huge_bytes": 0}
IDLE_LIVE: dict[str, Any] = {
    "live.device.reads_per_second": 100.0, "live.device.read_bytes_per_second": 1.0 * MB,
    "live.device.writes_per_second": 10.0, "live.device.written_bytes_per_second": 1.0 * MB,
    "live.server.reads_per_second": 100.0, "live.server.read_bytes_per_second": 800.0 * kB,
    "live.server.fetched_bytes_per_second": 800.0 * kB, "live.swapped_pages_per_second": 0.0,
}  # fmt: skip
AMPLIFIED = IDLE_LIVE | {"live.server.fetched_bytes_per_second": 6.4 * MB, "host.memory.page_bytes": 64 * kB}
PREDICTED: dict[str, Any] = {
    "predict.is_settled": True, "predict.recorded_block_bytes": 8 * kB, "predict.block_bytes": 4 * kB,
    "predict.sentence": "4kB data blocks are predicted to give × 1.50.", "predict.cost": "dump and restore: 1 h",
    "predict.trace": "t.octrace",
}  # fmt: skip
KHUGEPAGED = {
    "host.thp.enabled": "madvise", "host.thp.khugepaged_pages_to_scan": 4096, "host.thp.khugepaged_pause_ms": 10_000,
}  # fmt: skip
BUSY: dict[str, Any] = IDLE_LIVE | {"live.device.busy_share": 0.99, "live.device.writes_per_second": 0.0}
EBS = {"host.device.model": "Amazon Elastic Block Store", "host.device.size_bytes": 200 * GB, **BUSY}
AZURE = {"host.device.vendor": "Msft", "host.device.model": "Virtual Disk", "host.device.size_bytes": 512 * GB,
         "host.platform": "azure", **BUSY}  # fmt: skip
GOOGLE = {"host.device.vendor": "Google", "host.device.model": "PersistentDisk", "host.device.size_bytes": 500 * GB,
          **BUSY}  # fmt: skip
RAID: dict[str, Any] = {
    "host.raid.name": "md0", "host.raid.level": "raid10", "host.raid.chunk_bytes": 512 * kB,
    "host.raid.stripe_bytes": 2 * MB, "host.fs.options": "rw,sunit=1024,swidth=4096",
}  # fmt: skip
SPOILT = IDLE_LIVE | {
    "host.device.readahead_bytes": 8 * MB, "live.server.fetched_bytes_per_second": 9.0 * MB,
    "live.server.scan_bytes_per_second": 0.0, "live.server.base_backups": 0,
    "live.server.temporary_bytes_per_second": 0.0, "live.server.long_transactions": False,
}  # fmt: skip
CHECKPOINT = BUSY | {
    "setting.checkpoint_completion_target": 0.9, "live.server.checkpoint_bytes_per_second": 20.0 * MB,
    "live.server.checkpoint_dirtied_bytes_per_second": 21.0 * MB, "live.device.written_bytes_per_second": 22.0 * MB,
}  # fmt: skip
MANAGED: dict[str, Any] = {
    "server.managed": "Amazon RDS or Aurora: parameter group", "host.memory.page_bytes": {"unknown": "elsewhere"},
}  # fmt: skip
MUCH_WAL = {"server.wal.bytes": 200_000 * GB}
SMALL_READS = {"server.scans.read_bytes": 5 * 10**6 * 8 * kB, "setting.io_combine_limit": 8 * kB}
TWICE = {
    "setting.shared_buffers": 64 * GB, "server.buffers.used_bytes": 60 * GB, "server.buffers.in_page_cache_share": 0.8,
}  # fmt: skip


def pool(page: int = 2 * MB, total: int = 0, free: int = 0, reserved: int = 0, nodes: tuple[int, ...] = ()) -> Any:
    return {
        "page_bytes": page, "total": total, "free": free, "reserved": reserved, "surplus": 0, "overcommit": 0,
        "nodes": [{"node": at, "total": one, "free": 0, "surplus": 0} for at, one in enumerate(nodes)],
    }  # fmt: skip


def group(limit: int, used: int = 0, *, reservations: bool = False, page: int = 2 * MB) -> Any:
    return {"page_bytes": page, "group": "/sys/fs/cgroup/x", "name": "hugetlb.2MB.max", "limit_bytes": limit,
            "used_bytes": used, "reservations": reservations}  # fmt: skip


def result(rule: str, changes: dict[str, Any]) -> Result:
    (found,) = examine(read_facts(WELL_TUNED | changes), [RULES[rule]])
    return found


def fix(rule: str, changes: dict[str, Any]) -> list[str]:
    """The lines of a finding, for a running server."""
    lines: list[str] = result(rule, changes).as_dict()["fix"]
    return lines


def word(rule: str, changes: dict[str, Any]) -> str:
    found = result(rule, changes)
    return str(found.severity or found.status)


@pytest.mark.parametrize(
    ("rule", "changes", "expected"),
    [
        ("kernel-page", {"host.memory.page_bytes": 64 * kB}, "warning"),
        ("kernel-page", {"host.memory.page_bytes": 64 * kB, "server.databases_bytes": 30 * GB}, "ok"),
        ("kernel-page", {"host.memory.page_bytes": 64 * kB, "setting.debug_io_direct": "data"}, "not applicable"),
        ("kernel-page", {"host.memory.page_bytes": 16 * kB}, "note"),
        ("kernel-page", {"host.memory.page_bytes": 16 * kB, "setting.block_size": 16 * kB}, "ok"),
        ("kernel-page", {"host.fs.block_bytes": 128 * kB, "host.fs.type": "zfs"}, "warning"),
        ("kernel-page", {"host.fs.block_bytes": {"unknown": "nfs does not say"}}, "ok"),
        ("read-amplification", IDLE_LIVE, "ok"),
        ("read-amplification", IDLE_LIVE | {"live.server.reads_per_second": 3.0}, "not applicable"),
        # A base backup reads this much, and pages are not larger than blocks.
        ("read-amplification", IDLE_LIVE | {"live.server.fetched_bytes_per_second": 90.0 * MB}, "ok"),
        ("read-amplification", AMPLIFIED, "warning"),
        ("read-amplification", AMPLIFIED | {"live.server.base_backups": 1}, "unknown"),
        ("read-amplification", AMPLIFIED | {"live.server.temporary_bytes_per_second": 6.0 * MB}, "ok"),
        ("read-amplification", AMPLIFIED | {"live.server.temporary_bytes_per_second": 1.0 * MB}, "warning"),
        # The reads of a transaction are counted when it ends.
        ("read-amplification", AMPLIFIED | {"live.seconds": 2.0, "live.server.long_transactions": True}, "unknown"),
        # Without it the kernel reads one page at a time, for an I/O worker as well.
        ("readahead", {"host.device.readahead_bytes": 0}, "warning"),
        ("readahead", {"host.device.readahead_bytes": 32 * kB, "host.memory.page_bytes": 64 * kB}, "warning"),
        ("readahead", {"host.device.readahead_bytes": 0, "setting.debug_io_direct": "data"}, "not applicable"),
        ("readahead", {"host.device.readahead_bytes": 4 * kB}, "ok"),
        ("readahead", {"host.device.readahead_bytes": 4 * kB, "setting.io_method": "sync"}, "note"),
        ("readahead", {"host.device.readahead_bytes": 4 * kB, "server.version_number": 170002}, "note"),
        ("readahead", {"host.device.readahead_bytes": 4 * kB, "server.version_number": 160003}, "warning"),
        # The defaults of Linux and of each version.
        ("readahead", {"host.device.readahead_bytes": 128 * kB, "server.version_number": 160003}, "ok"),
        ("readahead", {"host.device.readahead_bytes": 128 * kB, "server.version_number": 170002}, "ok"),
        ("readahead", {"host.device.readahead_bytes": 128 * kB, "setting.io_method": "sync"}, "ok"),
        ("readahead", SPOILT, "note"),
        ("readahead", SPOILT | {"live.server.scan_bytes_per_second": 700.0 * kB}, "ok"),
        ("readahead", SPOILT | {"live.server.base_backups": 1}, "ok"),
        ("readahead", SPOILT | {"live.server.temporary_bytes_per_second": 1.0}, "ok"),
        ("readahead", SPOILT | {"live.server.long_transactions": True}, "ok"),
        ("readahead", SPOILT | {"live.server.long_transactions": {"unknown": "needs pg_monitor"}}, "ok"),
        ("readahead", SPOILT | {"host.device.readahead_bytes": 128 * kB}, "ok"),
        ("readahead", SPOILT | {"host.memory.page_bytes": 64 * kB}, "ok"),
        ("folio-writes", {}, "not applicable"),
        ("folio-writes", {"host.fs.type": "ext4"}, "not applicable"),
        ("folio-writes", {"host.memory.page_bytes": 64 * kB}, "warning"),
        ("folio-writes", {"host.memory.page_bytes": 64 * kB, "host.kernel": "6.8.0-31-generic-64k"}, "ok"),
        ("folio-writes", {"host.memory.page_bytes": 64 * kB, "host.kernel": "4.18.0-553.el8_10.aarch64"}, "unknown"),
        ("folio-writes", {"host.kernel": "5.10.0-28-amd64"}, "ok"),
        ("folio-writes", CHECKPOINT, "ok"),
        ("folio-writes", CHECKPOINT | {"live.server.checkpoint_dirtied_bytes_per_second": 160.0 * MB}, "warning"),
        ("folio-writes", CHECKPOINT | {"live.server.checkpoint_bytes_per_second": 0.0}, "not applicable"),
        ("physical-sector", {"host.device.physical_sector_bytes": 16 * kB}, "note"),
        ("physical-sector", {"host.device.physical_sector_bytes": 8 * kB}, "ok"),
        ("raid-stripe", {}, "not applicable"),
        ("raid-stripe", RAID, "ok"),
        ("raid-stripe", RAID | {"host.fs.options": "rw,noquota"}, "note"),
        # The filesystem was made before the RAID grew.
        ("raid-stripe", RAID | {"host.fs.options": "rw,sunit=1024,swidth=3072"}, "note"),
        ("raid-stripe", RAID | {"host.fs.type": "ext4"}, "unknown"),
        ("raid-stripe", RAID | {"host.raid.level": "raid1", "host.raid.stripe_bytes": 0, "host.raid.chunk_bytes": 0},
         "ok"),
        ("raid-stripe", RAID | {"host.raid.level": "raid5"}, "ok"),
        ("raid-stripe", RAID | IDLE_LIVE | {"host.raid.level": "raid5", "live.device.writes_per_second": 800.0,
                                            "live.device.written_bytes_per_second": 8.0 * MB}, "note"),
        ("raid-stripe", RAID | IDLE_LIVE | {"live.device.writes_per_second": 800.0,
                                            "live.device.written_bytes_per_second": 8.0 * MB}, "ok"),
        ("cloud-volume", BUSY | {"host.device.model": "Samsung SSD"}, "not applicable"),
        ("cloud-volume", EBS, "ok"),
        # More than gp2 provides, and less than gp3 has by default: which of them it is cannot be determined.
        ("cloud-volume", EBS | {"live.device.reads_per_second": 2000.0}, "ok"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 3300.0}, "warning"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 590.0}, "warning"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 590.0, "live.device.busy_share": 0.5}, "ok"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 590.0, "host.device.size_bytes": 2000 * GB}, "ok"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 1950.0,
                                "live.device.read_bytes_per_second": 123.0 * MB}, "warning"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 2500.0,  # with credits, at no limit
                                "live.device.read_bytes_per_second": 150.0 * MB}, "ok"),
        ("cloud-volume", EBS | {"live.device.busy_share": {"unknown": "no /sys"}}, "unknown"),
        ("cloud-volume", EBS | {"host.device.disks": ["nvme1n1", "nvme2n1"]}, "not applicable"),
        ("cloud-volume", AZURE | {"live.device.reads_per_second": 2290.0}, "warning"),
        ("cloud-volume", AZURE | {"live.device.reads_per_second": 3500.0}, "warning"),
        ("cloud-volume", AZURE | {"live.device.reads_per_second": 1500.0}, "ok"),
        ("cloud-volume", AZURE | {"live.device.reads_per_second": 2290.0, "host.platform": None}, "not applicable"),
        ("cloud-volume", AZURE | {"live.device.reads_per_second": 2290.0, "host.device.model": "MSFT NVMe Accelerator "
                                  "v1.0", "host.device.vendor": {"absent": "NVMe"}}, "warning"),
        ("cloud-volume", AZURE | {"host.device.model": "Microsoft NVMe Direct Disk v2"}, "not applicable"),
        ("cloud-volume", GOOGLE | {"live.device.reads_per_second": 6000.0}, "warning"),
        ("cloud-volume", GOOGLE | {"live.device.reads_per_second": 10000.0}, "ok"),
        ("cloud-volume", GOOGLE | {"live.device.reads_per_second": 2200.0,
                                   "live.device.read_bytes_per_second": 278.0 * MB}, "warning"),
        # A page of 64 kB has separately dirty blocks of 4 kB.
        ("wal-block", {"host.memory.page_bytes": 64 * kB}, "ok"),
        ("wal-block", {"host.fs.block_bytes": 16 * kB}, "note"),
        ("wal-block", {"host.fs.block_bytes": 128 * kB}, "note"),
        ("wal-block", {"host.fs.block_bytes": 128 * kB, "host.fs.wal_elsewhere": True}, "not applicable"),
        ("wal-block", {"host.fs.block_bytes": 128 * kB, "host.fs.wal_elsewhere": {"unknown": "x"}}, "note"),
        ("wal-block", {"host.fs.block_bytes": 128 * kB, "host.fs.type": "zfs"}, "note"),
        ("wal-block", {"host.fs.block_bytes": 128 * kB, "host.fs.type": "zfs", "setting.wal_recycle": False}, "ok"),
        ("wal-block", {"setting.wal_block_size": 4 * kB}, "ok"),
        ("wal-block", {"setting.wal_block_size": 2 * kB}, "note"),
        ("wal-segment", {"server.wal.bytes": 20000 * GB}, "note"),
        ("wal-segment", {"server.wal.bytes": 20000 * GB, **MANAGED}, "not applicable"),
        ("wal-segment", {"server.wal.bytes": 20000 * GB, "setting.wal_segment_size": 64 * MB}, "ok"),
        ("wal-segment", {"server.wal.bytes": 20000 * GB, "server.wal.seconds": 60.0}, "not applicable"),
        ("block-sizes", {"setting.block_size": 4 * kB}, "note"),
        ("block-sizes", {"setting.wal_block_size": 16 * kB}, "note"),
        ("io-combine-limit", {"setting.io_combine_limit": 256 * kB}, "note"),
        ("io-combine-limit", {"setting.io_combine_limit": 16 * kB}, "note"),
        # 128 blocks are the maximum at 1 kB blocks as well, and 128 kB the default.
        ("io-combine-limit", {"setting.block_size": kB}, "ok"),
        # In 17 they are 32.
        ("io-combine-limit", {"setting.block_size": kB, "setting.io_combine_limit": 32 * kB,
                              "server.version_number": 170002}, "ok"),
        ("io-combine-limit", {"setting.block_size": kB, "setting.io_combine_limit": 32 * kB}, "note"),
        ("io-method", {"setting.io_method": "sync"}, "note"),
        # Without a second request in flight another method makes no difference.
        ("io-method", {"setting.io_method": "sync", "setting.effective_io_concurrency": 0}, "ok"),
        ("io-method", {"setting.io_method": "io_uring"}, "ok"),
        ("io-method", {"setting.io_method": {"absent": "PostgreSQL 16 has no such setting"}}, "not applicable"),
        ("prefetch", {"setting.effective_io_concurrency": 1}, "note"),
        ("prefetch", {"setting.effective_io_concurrency": 1, "host.device.rotational": True}, "not applicable"),
        ("prefetch", {"host.device.rotational": {"unknown": "another host"}}, "ok"),
        ("scan-requests", SMALL_READS, "note"),
        # Nothing limits them: the additional reads are the gaps between cached blocks.
        ("scan-requests", SMALL_READS | {"setting.io_combine_limit": 128 * kB}, "ok"),
        ("scan-requests", SMALL_READS | {"server.scans.hits": 10**7}, "ok"),
        ("scan-requests", SMALL_READS | {"setting.io_combine_limit": 128 * kB, "setting.shared_buffers": 16 * MB},
         "note"),
        ("scan-requests", {"server.scans.read_bytes": 5 * 10**6 * 8 * kB, "server.version_number": 170002},
         "not applicable"),
        ("scan-requests", {"server.scans.reads": 100}, "not applicable"),
        ("hint-bits", {"server.scans.writes": 10**7}, "note"),
        ("hint-bits", {"server.scans.writes": 10**5}, "ok"),
        # With data checksums a standby sets hint bits in memory only.
        ("hint-bits", {"server.scans.writes": 10**7, "server.in_recovery": True}, "ok"),
        ("checkpoint-writes", CHECKPOINT, "note"),
        ("checkpoint-writes", CHECKPOINT | {"setting.checkpoint_completion_target": 0.5}, "note"),
        ("checkpoint-writes", CHECKPOINT | {"live.device.busy_share": 0.6}, "ok"),
        ("checkpoint-writes", CHECKPOINT | {"live.server.reads_per_second": 5.0}, "ok"),
        # The page cache takes the writes, and the disk is busy with a flush.
        ("checkpoint-writes", CHECKPOINT | {"live.device.read_bytes_per_second": 0.0,
                                            "live.device.written_bytes_per_second": 0.0}, "ok"),
        ("checkpoint-writes", CHECKPOINT | {"live.server.checkpoint_bytes_per_second": {"absent": "15"}},
         "not applicable"),
        ("huge-pages-group", {"host.huge.group_limits": [group(0)]}, "error"),
        ("huge-pages-group", {"host.huge.group_limits": [group(64 * GB, 33 * GB)]}, "ok"),
        ("huge-pages-group", {"host.huge.group_limits": [group(0)], "setting.huge_pages": "off"}, "ok"),
        ("huge-pages-group", {"host.huge.group_limits": [group(0, page=GB)]}, "ok"),
        # A limit on reservations refuses mmap: with try the server falls back, with on it does not start.
        ("huge-pages-group", {"host.huge.group_limits": [group(0, reservations=True)]}, "error"),
        ("huge-pages-group", {"host.huge.group_limits": [group(0, reservations=True)], "setting.huge_pages": "try"},
         "ok"),
        # Without free pages mmap fails first, and with try the server falls back.
        ("huge-pages-group", {"host.huge.group_limits": [group(0)], "host.huge.pools": [pool()], **SMALL_PAGES}, "ok"),
        ("huge-pages-group", {"host.huge.group_limits": [group(0)], "host.huge.pools": [pool(total=40000, free=40000)],
                              **SMALL_PAGES}, "error"),
        ("huge-pages", {}, "ok"),
        ("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool()]}, "warning"),
        ("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool()], "setting.max_connections": 30}, "note"),
        ("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool()], "setting.max_connections": 5}, "ok"),
        ("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool()], "host.thp.shmem": "always"}, "ok"),
        ("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool(total=2, free=2)], "setting.max_connections": 5},
         "warning"),
        # The rest of the pool is used by another server.
        ("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool(total=20, free=2)], "setting.max_connections": 5}, "ok"),
        ("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool()], "setting.huge_pages": "off"}, "warning"),
        ("huge-pages", SMALL_PAGES | {"host.machine": "s390x"}, "unknown"),
        ("huge-pages-pool", {}, "ok"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=17000, free=0, reserved=0)],
                             "setting.shared_memory_size_in_huge_pages": 16898}, "warning"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=17000, free=0, reserved=0)],
                             "setting.shared_memory_size_in_huge_pages": 16897}, "ok"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=20000, free=3100)]}, "note"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=30000, free=13100)]}, "warning"),
        # The pool is the machine's, not the control group's.
        ("huge-pages-pool", {"host.huge.pools": [pool(total=18000, free=1100)],
                             "host.memory.group_limit_bytes": 8 * GB}, "ok"),
        ("huge-pages-pool", SMALL_PAGES, "not applicable"),
        ("huge-page-size", {}, "ok"),
        ("huge-page-size", SMALL_PAGES | {"host.huge.pools": [pool(), pool(GB, 40, 40)]}, "warning"),
        ("huge-page-size", SMALL_PAGES | {"host.huge.pools": [pool(), pool(GB, 4, 4)]}, "ok"),
        ("huge-page-size", {"setting.huge_page_size": GB, "setting.shared_memory_size": 2 * GB + 100 * MB,
                            "setting.shared_memory_size_in_huge_pages": 3, "setting.shared_buffers": 2 * GB,
                            "host.huge.pools": [pool(), pool(GB, 3, 0)]}, "note"),
        ("huge-page-size", SMALL_PAGES | {"host.huge.pools": [pool(), pool(GB, 40, 40)],
                                          "server.version_number": 130014}, "ok"),
        ("huge-pages-nodes", {"host.huge.pools": [pool(total=17000, nodes=(17000, 0))]}, "note"),
        ("huge-pages-nodes", {"host.numa.nodes": 1}, "not applicable"),
        ("huge-pages-boot", {"host.huge.at_boot": []}, "note"),
        ("huge-pages-boot", {"host.huge.at_boot": [], "host.container": "Docker"}, "not applicable"),
        ("shared-memory-type", {"setting.shared_memory_type": "sysv"}, "warning"),
        ("shared-memory-type", {"setting.shared_memory_type": "sysv", "setting.huge_pages": "off"}, "ok"),
        ("memlock", {"host.process.memlock_bytes": 64 * kB}, "ok"),
        ("memlock", {"setting.io_method": "io_uring", "host.process.memlock_bytes": 64 * kB}, "ok"),
        ("memlock", {"setting.io_method": "io_uring", "host.process.memlock_bytes": 64 * kB,
                     "host.kernel": "5.10.0-28-amd64"}, "note"),
        ("memlock", {"setting.io_method": "io_uring", "host.process.memlock_bytes": {"unknown": "for root"},
                     "host.kernel": "5.10.0-28-amd64"}, "unknown"),
        # systemd's default.
        ("memlock", {"setting.io_method": "io_uring", "host.process.memlock_bytes": 8 * MB,
                     "host.kernel": "5.10.0-28-amd64"}, "ok"),
        ("memlock", {"setting.io_method": "io_uring", "host.process.memlock_bytes": None,
                     "host.kernel": "5.10.0-28-amd64"}, "ok"),
        ("page-tables", {}, "ok"),
        ("page-tables", SMALL_PAGES | {"host.process.page_tables_bytes": 10 * GB}, "warning"),
        ("page-tables", SMALL_PAGES | {"setting.max_connections": 1000}, "warning"),
        ("page-tables", SMALL_PAGES | {"setting.max_connections": 2000, "host.process.page_tables_bytes": 10 * GB},
         "error"),
        ("page-tables", SMALL_PAGES | {"setting.max_connections": 100}, "ok"),
        # Transparent ones are not guaranteed: the current number decides.
        ("page-tables", SMALL_PAGES | {"setting.max_connections": 1000, "host.thp.shmem": "always"}, "ok"),
        ("page-tables", SMALL_PAGES | {"host.process.page_tables_bytes": 10 * GB, "host.thp.shmem": "always"},
         "warning"),
        ("page-tables", SMALL_PAGES | {"host.process.page_tables_bytes": 10 * GB, "host.huge.pools": {"unknown": "x"}},
         "warning"),
        ("transparent-huge-pages", {"host.thp.enabled": "always"}, "note"),
        ("transparent-huge-pages", {"host.thp.enabled": "always", "host.thp.defrag": "always"}, "warning"),
        ("transparent-huge-pages", {"host.thp.enabled": {"absent": "there is no such file"}}, "not applicable"),
        ("oom", {}, "ok"),
        ("oom", {"host.memory.overcommit": 0, "host.process.postmaster_oom_adj": 0}, "note"),
        ("oom", {"host.memory.overcommit": 0, "host.process.postmaster_oom_adj": 0,
                 "host.memory.available_bytes": 5 * GB}, "warning"),
        ("oom", {"host.memory.overcommit": 0, "host.process.children_oom_adj": -1000}, "note"),
        # MemoryMax= of a unit: the group's own OOM killer acts whatever the machine promises.
        ("oom", {"host.memory.group_limit_bytes": 64 * GB, "host.process.postmaster_oom_adj": 0}, "note"),
        ("oom", {"host.memory.overcommit": 0, "host.process.postmaster_oom_adj": 1000,
                 "host.container": "Kubernetes"}, "warning"),
        ("oom", {"host.memory.overcommit": 0, "host.process.postmaster_oom_adj": -997,
                 "host.container": "Kubernetes"}, "not applicable"),
        ("overcommit", {"host.memory.committed_bytes": 114 * GB}, "warning"),
        ("overcommit", {"host.memory.committed_bytes": 114 * GB, "host.memory.overcommit": 0}, "not applicable"),
        ("swap", {"host.swap.total_bytes": GB, "live.swapped_pages_per_second": 500.0}, "warning"),
        ("swap", {"host.swap.total_bytes": GB, "host.process.swap_bytes": 100 * MB}, "note"),
        ("swap", {"host.swap.total_bytes": GB}, "ok"),
        ("shared-buffers", {"setting.shared_buffers": 100 * GB}, "warning"),
        ("shared-buffers", {"setting.shared_buffers": 99 * 1024 * GB}, "warning"),
        ("shared-buffers", SMALL_PAGES | {"host.memory.group_limit_bytes": 40 * GB}, "warning"),
        # Huge pages are not charged to the group: the pod has 8 GB beside its 33 GB of them.
        ("shared-buffers", {"host.memory.group_limit_bytes": 8 * GB}, "warning"),
        ("shared-buffers", {"host.memory.group_limit_bytes": 24 * GB}, "ok"),
        ("effective-cache-size", {"host.memory.group_limit_bytes": 96 * GB}, "ok"),
        ("shared-buffers", {"setting.shared_buffers": 128 * MB}, "note"),
        ("shared-buffers", {"setting.shared_buffers": 400 * kB, "server.databases_bytes": 8 * MB}, "warning"),
        ("shared-buffers", {"setting.shared_buffers": 128 * MB, "server.databases_bytes": 500 * MB}, "ok"),
        ("shared-buffers", {"setting.shared_buffers": 128 * MB, "server.databases_bytes": {"unknown": "x"}}, "unknown"),
        ("double-buffering", {"host.memory.file_cache_bytes": 90 * GB}, "ok"),
        ("double-buffering", {"host.process.count": {"absent": "the server does not run"}}, "not applicable"),
        ("double-buffering", TWICE, "note"),
        ("double-buffering", TWICE | {"server.databases_bytes": 50 * GB}, "ok"),
        ("double-buffering", TWICE | {"setting.shared_buffers": 32 * GB, "server.buffers.used_bytes": 32 * GB}, "ok"),
        ("double-buffering", TWICE | {"server.buffers.in_page_cache_share": 0.1}, "ok"),
        ("double-buffering", TWICE | {"setting.debug_io_direct": "data"}, "not applicable"),
        # The ARC of ZFS is not in the page cache: a share of 0 would not mean that nothing is cached twice.
        ("double-buffering", TWICE | {"host.fs.type": "zfs", "server.buffers.in_page_cache_share": 0.0}, "unknown"),
        ("work-mem", {"setting.work_mem": 512 * MB}, "note"),
        ("work-mem", {"setting.maintenance_work_mem": 40 * GB}, "note"),
        ("work-mem", {"setting.maintenance_work_mem": 40 * GB, "setting.autovacuum_work_mem": 64 * MB}, "ok"),
        # Before 17 vacuum uses 1 GB at most.
        ("work-mem", {"setting.maintenance_work_mem": 40 * GB, "server.version_number": 160004}, "ok"),
        ("work-mem", {"setting.shared_buffers": 200 * GB}, "not applicable"),
        ("work-mem", {"setting.work_mem": GB}, "warning"),
        ("work-mem", {"setting.work_mem": 4 * MB, "setting.max_connections": 14000}, "ok"),
        ("work-mem", {"setting.work_mem": 4 * MB, "setting.max_connections": 60000}, "warning"),
        ("connections", {"server.connections": 1000, "server.idle_connections": 950,
                         "host.process.private_bytes": 300 * MB}, "warning"),
        ("connections", {"server.connections": 1000, "server.idle_connections": 950, "host.process.count": 1010,
                         "host.process.private_bytes": 1300 * MB}, "note"),
        ("connections", {"server.connections": 1000, "server.idle_connections": 200}, "ok"),
        ("connections", {"server.connections": 300, "server.idle_connections": 290}, "ok"),
        ("connections", {"server.connections": 300, "server.idle_connections": 290, "host.cpu.group_cores": 2,
                         "host.process.count": 310}, "note"),
        ("connections", {"server.connections": 300, "server.idle_connections": 290, "host.cpu.allowed_cores": 2,
                         "host.process.count": 310}, "note"),
        ("connections", {"server.connections": 1000, "server.idle_connections": {"unknown": "x"}}, "unknown"),
        ("random-page-cost", {"setting.random_page_cost": 4.0}, "warning"),
        ("random-page-cost", {"setting.random_page_cost": 4.0, "server.databases_bytes": GB}, "note"),
        ("random-page-cost", {"setting.random_page_cost": 4.0, "host.device.rotational": True}, "not applicable"),
        ("random-page-cost", {"setting.random_page_cost": 4.0, "setting.seq_page_cost": 4.0}, "ok"),
        ("random-page-cost", {"setting.random_page_cost": 0.5}, "warning"),
        ("effective-cache-size", {"setting.effective_cache_size": 4 * GB, "setting.shared_buffers": GB}, "note"),
        ("effective-cache-size", {"setting.effective_cache_size": 200 * GB}, "note"),
        ("effective-cache-size", {"setting.effective_cache_size": GB}, "note"),
        ("effective-cache-size", {"setting.effective_cache_size": 64 * GB}, "ok"),
        ("full-page-writes", {"setting.full_page_writes": False}, "error"),
        ("full-page-writes", {"setting.full_page_writes": False, "host.fs.type": "zfs",
                              "host.fs.block_bytes": 128 * kB}, "ok"),
        ("full-page-writes", {"setting.full_page_writes": False, "host.fs.type": "zfs"}, "error"),  # records of 4 kB
        # A block may be in two extents, which are committed one after the other.
        ("full-page-writes", {"setting.full_page_writes": False, "host.fs.type": "btrfs"}, "warning"),
        ("full-page-writes", {"setting.full_page_writes": False, "host.fs.type": "bcachefs"}, "warning"),
        ("full-page-writes", {"setting.full_page_writes": False, "host.fs.type": "btrfs",
                              "setting.block_size": 4 * kB}, "ok"),
        ("full-page-writes", {"setting.full_page_writes": False, "host.fs.type": "btrfs",
                              "host.fs.options": "rw,nodatacow",
                              "host.device.physical_sector_bytes": {"unknown": "no device"}}, "error"),
        # On a standby it matters once it is promoted.
        ("full-page-writes", {"setting.full_page_writes": False, "server.in_recovery": True}, "warning"),
        # PostgreSQL does not request it (RWF_ATOMIC).
        ("full-page-writes", {"setting.full_page_writes": False, "host.device.atomic_write_bytes": 16 * kB}, "error"),
        ("full-page-writes", {"setting.full_page_writes": False, "setting.block_size": 4 * kB}, "ok"),
        ("full-page-images", {"setting.wal_compression": "off", "server.wal.full_page_images": 6 * 10**6}, "note"),
        ("full-page-images", {"server.wal.full_page_images": 6 * 10**6}, "ok"),
        ("full-page-images", {"setting.wal_compression": "off"}, "ok"),
        ("full-page-images", {"setting.wal_compression": "off", "server.wal.seconds": 60.0}, "not applicable"),
        ("checkpoints", MUCH_WAL | {"server.checkpoints.requested": 9000}, "warning"),
        # CREATE DATABASE before 15, or by hand: there is not enough WAL for them.
        ("checkpoints", {"server.checkpoints.requested": 9000}, "ok"),
        # Of months, there is enough for some of them only.
        ("checkpoints", {"server.checkpoints.requested": 9000, "server.wal.bytes": 400 * GB}, "ok"),
        # Segments are as large as a quarter of max_wal_size: one of them triggers a checkpoint.
        ("checkpoints", {"server.checkpoints.requested": 9000, "server.wal.bytes": 300 * GB,
                         "setting.max_wal_size": 256 * MB, "setting.wal_segment_size": 64 * MB}, "warning"),
        ("checkpoints", {"server.checkpoints.requested": 9000, "server.wal.bytes": {"absent": "13"}}, "warning"),
        # One a minute in two and a half hours of the day, the others by time.
        ("checkpoints", MUCH_WAL | {"server.checkpoints.timed": 2600, "server.checkpoints.requested": 1400}, "note"),
        ("checkpoints", MUCH_WAL | {"server.checkpoints.timed": 2160, "server.checkpoints.requested": 1080}, "ok"),
        # Four backups a day.
        ("checkpoints", MUCH_WAL | {"server.checkpoints.timed": 2860, "server.checkpoints.requested": 40}, "ok"),
        # Requested, but no more often than by time: backups, or manual CHECKPOINTs.
        ("checkpoints", {"server.checkpoints.requested": 60, "server.checkpoints.timed": 10}, "ok"),
        ("checkpoints", {"server.in_recovery": True}, "not applicable"),
        ("checksums", {"setting.data_checksums": False}, "note"),
        # A role of a managed service may come from a dump.
        ("checksums", {"setting.data_checksums": False, **MANAGED, "host.memory.page_bytes": 4 * kB}, "note"),
        ("checksums", {"setting.data_checksums": False, **MANAGED}, "not applicable"),
        ("predicted-block", {}, "not applicable"),
        ("predicted-block", PREDICTED, "note"),
        ("predicted-block", PREDICTED | {"predict.is_settled": False}, "ok"),
        ("predicted-block", PREDICTED | {"predict.recorded_block_bytes": 4 * kB}, "unknown"),
        ("lse", {}, "not applicable"),
        ("lse", {"host.machine": "aarch64", "host.cpu.lse": True,
                 "host.process.atomics": {"value": {"lse": 0, "exclusive": 80}}}, "warning"),
        # Outline atomics: both variants are present, and the CPU decides.
        ("lse", {"host.machine": "aarch64", "host.cpu.lse": True,
                 "host.process.atomics": {"value": {"lse": 60, "exclusive": 80}}}, "ok"),
        # Helpers that nothing calls have LSE instructions too.
        ("lse", {"host.machine": "aarch64", "host.cpu.lse": True,
                 "host.process.atomics": {"value": {"lse": 7, "exclusive": 80, "calls_of_helpers": 0,
                                                    "verdict": "no-lse", "advice": "GCC 9.3 does not"}}}, "warning"),
        ("lse", {"host.machine": "aarch64", "host.cpu.lse": True,
                 "host.process.atomics": {"value": {"lse": 7, "exclusive": 14, "calls_of_helpers": 300,
                                                    "verdict": "outlined"}}}, "ok"),
        ("lse", {"host.machine": "aarch64", "host.cpu.lse": True,
                 "host.process.atomics": {"value": {"lse": 60, "exclusive": 80, "verdict": []}}}, "ok"),
        ("lse", {"host.machine": "aarch64", "host.cpu.lse": False}, "not applicable"),
        ("cpu-governor", {"host.cpu.governors": ["powersave"], "host.cpu.drivers": ["acpi-cpufreq"]}, "note"),
        ("cpu-governor", {"host.cpu.governors": ["powersave"]}, "ok"),
        ("cpu-governor", {"host.cpu.governors": ["powersave"], "host.cpu.preferences": ["power"]}, "note"),
        # Pages of hugetlb are skipped, and 2 only moves them between fast and slow memory.
        ("numa", {"host.numa.balancing": 1}, "ok"),
        ("numa", SMALL_PAGES | {"host.numa.balancing": 1}, "note"),
        ("numa", SMALL_PAGES | {"host.numa.balancing": 2}, "ok"),
        ("khugepaged", KHUGEPAGED, "ok"),
        ("khugepaged", KHUGEPAGED | {"host.thp.khugepaged_pause_ms": 0}, "warning"),
        ("khugepaged", KHUGEPAGED | {"host.thp.khugepaged_pause_ms": 0, "host.thp.enabled": "never"}, "ok"),
        ("khugepaged", KHUGEPAGED | {"host.thp.khugepaged_pause_ms": 10}, "note"),
        # The kernel's default with pages of 64 kB.
        ("khugepaged", KHUGEPAGED | {"host.thp.khugepaged_pages_to_scan": 65_536, "host.memory.page_bytes": 64 * kB},
         "ok"),
        ("oom-group", {"host.process.oom_group": False}, "ok"),
        ("oom-group", {"host.process.oom_group": True, "host.process.postmaster_oom_adj": 0}, "note"),
        ("oom-group", {"host.process.oom_group": True, "host.process.postmaster_oom_adj": -1000}, "ok"),
        ("oom-group", {"host.process.oom_group": {"absent": "version 1"}}, "not applicable"),
        ("numa", {"host.numa.zone_reclaim": 1}, "warning"),
        ("numa", {"host.numa.balancing": 1, "host.numa.nodes": 1}, "not applicable"),
    ],
)  # fmt: skip
def test_a_rule(rule: str, changes: dict[str, Any], expected: str) -> None:
    assert word(rule, changes) == expected, result(rule, changes)


def test_every_rule_has_a_finding_in_the_table() -> None:
    marks: list[Any] = test_a_rule.pytestmark  # pyright: ignore[reportFunctionMemberAccess]
    rows = marks[0].args[1]
    assert {rule for rule, _, expected in rows if expected in ("error", "warning", "note")} == set(RULES)


def test_every_finding_of_the_table_has_all_that_a_dba_needs() -> None:
    """A number in its cost, a line to use as it is, how to put it into effect, a check, evidence, a source."""
    marks: list[Any] = test_a_rule.pytestmark  # pyright: ignore[reportFunctionMemberAccess]
    for rule, changes, expected in marks[0].args[1]:
        if expected not in ("error", "warning", "note"):
            continue
        one = result(rule, changes)
        assert one.finding is not None and one.evidence and one.source
        assert any(letter.isdigit() for letter in one.finding.cost), (rule, one.finding.cost)
        lines = fix(rule, changes)
        assert any(not line.startswith("#") for line in lines), (rule, lines)
        assert not any("…" in line for line in lines if not line.startswith("#")), (rule, lines)
        assert one.finding.takes and one.finding.check, rule


@pytest.mark.parametrize(
    ("rule", "changes", "words"),
    [
        # The article: 87 seconds for what 4 kB pages read in one; 7.3 GB of memory.
        ("kernel-page", {"host.memory.page_bytes": 64 * kB}, "8 times the bytes"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 3300.0}, "gp2 gives 3,000/s while it bursts (a full "
         "bucket lasts 33 min 20 s), then 600/s"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 3000.0}, "gp3 (default performance) gives 3,000/s or "
         "gp2 gives 3,000/s while it bursts (a full bucket lasts 37 min 30 s)"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 2000.0,
                                "live.device.read_bytes_per_second": 248.0 * MB},
         "gp2 gives 250 MB/s while it bursts, then 150 MB/s; "),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 600.0,
                                "live.device.read_bytes_per_second": 149.0 * MB},
         "limited by IOPS: gp2 gives 600/s"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 2000.0, "live.device.read_bytes_per_second": 248.0 * MB,
                                "host.device.size_bytes": 334 * GB}, "gp2 gives 250 MB/s; that is"),
        ("cloud-volume", EBS | {"live.device.reads_per_second": 2000.0, "live.device.read_bytes_per_second": 127.0 * MB,
                                "host.device.size_bytes": 100 * GB},
         "gp2 gives 128 MB/s while it bursts, then 75 MB/s"),
        ("cloud-volume", AZURE | {"live.device.reads_per_second": 2290.0}, "premium SSD (P20) gives 2,300/s"),
        ("cloud-volume", AZURE | {"live.device.reads_per_second": 2000.0, "host.device.size_bytes": 128 * GB,
                                  "live.device.read_bytes_per_second": 168e6},
         "premium SSD (P10) gives 162 MB/s while it bursts, then 95.4 MB/s"),
        # What is included in the price; what was provisioned is not known.
        ("cloud-volume", GOOGLE | {"live.device.reads_per_second": 2990.0},
         "hyperdisk-balanced (baseline performance) gives 3,000/s"),
        # 3,000 and 6 for each GiB.
        ("cloud-volume", GOOGLE | {"live.device.reads_per_second": 6000.0}, "pd-balanced gives 6,000/s"),
        ("double-buffering", TWICE, "38 % of the memory hold copies: without them 6,291,456 more blocks of 8 kB"),
        ("raid-stripe", RAID | {"host.fs.options": "rw"}, "a write of 2 MB covers parts of two"),
        ("readahead", {"host.device.readahead_bytes": 0}, "a read of 128 kB is 32 requests, one after the other; a "
         "scan of 100 MB/s makes 25,600 requests/s, with 128 kB read ahead 800"),
        ("readahead", SPOILT, "8.22 MB/s of the disk's throughput are read ahead and not used: 11.5 bytes"),
        ("folio-writes", CHECKPOINT | {"live.server.checkpoint_dirtied_bytes_per_second": 160.0 * MB},
         "for a changed block of 8 kB up to 128 kB are written: 8.0 times the bytes"),
        # 100 MB/s of 8 kB: the thread counts 12,500 and 781 in powers of ten; 90 disks against 6.
        ("scan-requests", SMALL_READS, "12,800 requests/s; with 128 kB per request "
         "800. With 140 IOPS per rotating disk that is 92 disks against 6"),
        # 138 GB of shared_buffers, 80 connections, 192 GB: 25 GB of page tables were published.
        ("page-tables", SMALL_PAGES | {"setting.shared_memory_size": 138 * GB, "setting.max_connections": 80,
                                       "host.memory.total_bytes": 192 * GB}, "at max_connections = 80: 21.6 GB (11 %)"),
        ("io-combine-limit", {"setting.io_combine_limit": 8 * kB}, "12,800 requests/s; by default 800"),
        # Programs outside the group are not killed for it.
        ("oom", {"host.memory.group_limit_bytes": 64 * GB, "host.process.postmaster_oom_adj": 0, "host.oom.first": {
            "value": {"name": "java", "pid": 7, "score": 900, "whose": "other", "postmaster_score": 1}}},
         "available. When the group reaches its limit, one of its processes is killed"),
        # Images have no unused space of their blocks: they cannot be more than all of the WAL.
        ("full-page-images", {"setting.wal_compression": "off", "server.wal.full_page_images": 6 * 10**8},
         "up to 6 GB a day are images of 8 kB"),
        ("work-mem", {"setting.work_mem": GB, "setting.max_connections": 100, "setting.hash_mem_multiplier": 2.0},
         "one hash table in each session is 200 GB"),
        ("transparent-huge-pages", {"host.thp.enabled": "always", "host.memory.page_bytes": 64 * kB}, "take 512 MB"),
        ("transparent-huge-pages", {"host.thp.enabled": "always", "host.thp.shmem": "always"}, "and shared_buffers by"),
        ("wal-block", {"host.fs.block_bytes": 64 * kB}, "a commit of one block writes 64 kB: 8 times the bytes"),
        # A commit writes its own bytes to the intent log.
        ("wal-block", {"host.fs.block_bytes": 64 * kB, "host.fs.type": "zfs"}, "reads 64 kB first: 8 times the bytes"),
    ],
)  # fmt: skip
def test_the_cost_is_that_of_this_host(rule: str, changes: dict[str, Any], words: str) -> None:
    found = result(rule, changes).finding
    assert found is not None
    assert words in found.cost


def test_lines_for_huge_pages_are_those_of_hugepages_plan() -> None:
    found = fix("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool(total=10, free=4)]})
    # Six pages of the pool belong to another process.
    assert found[0].startswith("echo 'vm.nr_hugepages = 16902' > /etc/sysctl.d/")
    assert found[1].startswith("cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages   # restart only when it "
                               "prints 16902:")  # fmt: skip
    assert found[2:] == ["ALTER SYSTEM SET huge_pages = 'on';"]


def test_a_server_whose_small_pages_take_the_memory_is_stopped_first() -> None:
    """The kernel would evict the page cache and swap for a pool of 33 GB where 32 GB are available."""
    small = SMALL_PAGES | {"host.huge.pools": [pool()], "host.memory.available_bytes": 32 * GB}
    lines = fix("huge-pages", small)
    assert lines[0] == "# first stop the server: the pool takes 33 GB more, and while it runs 32 GB are available"
    assert lines[1].startswith("echo 'vm.nr_hugepages = 16896' > /etc/sysctl.d/")
    assert fix("huge-pages", small | {"host.memory.available_bytes": {"unknown": "x"}})[0] == lines[1]


def test_a_container_is_told_what_its_host_has_to_do() -> None:
    small = SMALL_PAGES | {"host.huge.pools": [pool()], "host.container": "Kubernetes"}
    lines = fix("huge-pages", small)
    assert lines[0] == "# on the host of this container (Kubernetes):"
    assert lines[3] == "# in the pod: resources: {limits: {hugepages-2Mi: 33792Mi}}"


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("transparent-huge-pages", {"host.thp.enabled": "always"}),
        ("khugepaged", KHUGEPAGED | {"host.thp.khugepaged_pause_ms": 0}),
        ("cpu-governor", {"host.cpu.governors": ["powersave"], "host.cpu.drivers": ["acpi-cpufreq"]}),
        ("readahead", {"host.device.readahead_bytes": 0}),
        ("numa", {"host.numa.zone_reclaim": 1}),
        ("numa", SMALL_PAGES | {"host.numa.balancing": 1}),
        ("swap", {"host.swap.total_bytes": GB, "host.process.swap_bytes": 100 * MB}),
        ("overcommit", {"host.memory.committed_bytes": 114 * GB}),
        ("huge-pages-nodes", {"host.huge.pools": [pool(total=17000, nodes=(17000, 0))]}),
    ],
)
def test_in_a_container_the_kernels_settings_are_changed_on_the_host(rule: str, changes: dict[str, Any]) -> None:
    lines = fix(rule, changes)
    inside = fix(rule, changes | {"host.container": "Docker"})
    assert inside == ["# on the host of this container (Docker):", *lines]


def test_a_group_gets_room_for_the_server_beside_what_others_use() -> None:
    limits = {"host.huge.group_limits": [group(34 * GB, 2 * GB)], "host.huge.pools": [pool(total=40000, free=39000)]}
    lines = fix("huge-pages-group", SMALL_PAGES | limits)
    assert lines[-1].startswith(f"echo {16896 * 2 * MB + 2 * GB} > /sys/fs/cgroup/x/hugetlb.2MB.max")


def test_the_rest_of_a_huge_page_is_filled() -> None:
    lines = fix("huge-page-size", {
        "setting.huge_page_size": GB, "setting.shared_memory_size": 2 * GB + 100 * MB, "setting.shared_buffers": 2 * GB,
        "setting.shared_memory_size_in_huge_pages": 3, "host.huge.pools": [pool(), pool(GB, 3, 0)],
    })  # fmt: skip
    assert lines[1] == "ALTER SYSTEM SET shared_buffers = '2928MB';"


def test_more_buffers_need_more_huge_pages_first() -> None:
    lines = fix("shared-buffers", {"setting.shared_buffers": 128 * MB})
    assert lines[0].startswith("# first the huge pages") and lines[1] == "ALTER SYSTEM SET shared_buffers = '32GB';"
    assert fix("shared-buffers", {"setting.shared_buffers": 128 * MB, "setting.huge_pages": "try"}) == [lines[1]]
    assert fix("shared-buffers", {"setting.shared_buffers": 100 * GB}) == [lines[1]]


def test_a_pod_is_guaranteed_what_a_node_can_give() -> None:
    pod = {"host.memory.overcommit": 0, "host.process.postmaster_oom_adj": 1000, "host.container": "Kubernetes"}
    each = "{memory: 98304Mi, cpu: 24}"  # three quarters of the node, less than four times 33 GB
    assert fix("oom", pod)[1] == f"resources: {{requests: {each}, limits: {each}}}"
    each = "{memory: 4096Mi, cpu: 2}"
    for name in ("host.cpu.group_cores", "host.cpu.allowed_cores"):
        limits = {"host.memory.group_limit_bytes": 4 * GB, name: 2}
        assert fix("oom", pod | limits)[1] == f"resources: {{requests: {each}, limits: {each}}}"


def test_a_pool_is_as_large_as_the_cpus_that_the_server_may_use() -> None:
    idle = {"server.connections": 1000, "server.idle_connections": 950, "host.process.count": 1010}
    for limits, size in (
        ({}, 64),
        ({"host.cpu.allowed_cores": 8, "host.cpu.group_cores": None}, 16),
        ({"host.cpu.allowed_cores": 8, "host.cpu.group_cores": 4}, 8),
        ({"host.cpu.allowed_cores": {"unknown": "no such process"}, "host.cpu.group_cores": 4}, 8),
        ({"host.cpu.allowed_cores": 32}, 64),
    ):
        assert fix("connections", idle | limits)[-1] == f"default_pool_size = {size}"


@pytest.mark.parametrize(
    ("volume", "size", "requests", "line"),
    [
        (EBS, 200 * GB, 600.0, "--volume-type gp3 --iops 6000 --throughput 500"),
        (EBS, 4000 * GB, 12_000.0, "--volume-type gp3 --iops 24000 --throughput 500"),
        (AZURE, 1024 * GB, 5000.0, "--set tier=P40"),
        # P50 has the same limits, and P60 is for disks of more than 4,096 GB.
        (AZURE, 2048 * GB, 7500.0, "--enable-bursting true"),
        (AZURE, 8192 * GB, 16_000.0, "--set tier=P70"),
        (AZURE, 32_767 * GB, 20_000.0, "--enable-bursting true"),
    ],
)
def test_a_volume_at_its_limit_gets_a_higher_one(volume: dict[str, Any], size: int, requests: float, line: str) -> None:
    (found,) = fix("cloud-volume", volume | {"host.device.size_bytes": size, "live.device.reads_per_second": requests})
    assert line in found


def test_no_block_is_smaller_than_the_smallest() -> None:
    images: dict[str, Any] = {"setting.wal_compression": "off", "server.wal.full_page_images": 6 * 10**7}
    assert "with blocks of 4 kB each" in str(result("full-page-images", images))
    assert "with blocks of" not in str(result("full-page-images", images | {"setting.block_size": kB}))


def test_a_pool_that_suffices_is_mentioned() -> None:
    pools = SMALL_PAGES | {"host.huge.pools": [pool(total=20_000, free=20_000), pool(GB, 40, 40)]}
    assert result("huge-page-size", pools).text == "pages of 2 MB are requested, of which 20,000 are free"


def test_a_standby_is_not_vacuumed() -> None:
    standby = {"server.scans.writes": 10**7, "server.in_recovery": True, "setting.data_checksums": False}
    assert fix("hint-bits", standby)[0] == "# on the primary:"


def test_a_timeout_of_checkpoints_is_one_that_postgresql_takes() -> None:
    assert fix("checkpoint-writes", CHECKPOINT | {"setting.checkpoint_timeout": 86400.0})[0] == (
        "ALTER SYSTEM SET checkpoint_timeout = '1440min';"
    )


def test_full_page_writes_protect_after_the_next_checkpoint() -> None:
    assert fix("full-page-writes", {"setting.full_page_writes": False})[2].startswith("CHECKPOINT;")


def test_the_kernel_to_install_is_for_the_machine() -> None:
    """Memory pages larger than a block are those of 64-bit Arm or POWER, not of amd64."""
    large = {"host.memory.page_bytes": 64 * kB, "host.machine": "aarch64"}
    assert fix("folio-writes", large)[1].endswith("linux-image-arm64")
    assert fix("folio-writes", large | {"host.machine": "ppc64le"})[1].endswith("linux-image-powerpc64le")


def test_swap_is_read_back_only_into_memory_that_is_free() -> None:
    swapped = {"host.swap.total_bytes": 8 * GB, "host.swap.free_bytes": 2 * GB, "host.process.swap_bytes": GB}
    assert "swapoff -a && swapon -a" in (lines := fix("swap", swapped))
    assert any("/etc/fstab" in line and "zram" in line for line in lines)
    assert "swapoff -a && swapon -a" not in fix("swap", swapped | {"host.memory.available_bytes": 10 * GB})
    assert "swapoff -a && swapon -a" not in fix("swap", swapped | {"host.swap.free_bytes": {"unknown": "x"}})


def test_a_low_swappiness_is_not_raised() -> None:
    swapped = {"host.swap.total_bytes": 8 * GB, "host.process.swap_bytes": GB}
    assert fix("swap", swapped | {"host.swap.swappiness": 60})[-1].startswith(
        "echo 'vm.swappiness = 1' > /etc/sysctl.d"
    )
    for low in (0, 1):
        assert not any("swappiness" in line for line in fix("swap", swapped | {"host.swap.swappiness": low}))


def test_memory_in_swap_that_the_kernel_does_not_count_by_process_is_mentioned() -> None:
    """VmSwap has no shared memory: all of shared_buffers may be in swap while it is 0."""
    found = result("swap", {"host.swap.total_bytes": 64 * GB, "host.swap.free_bytes": 2 * GB})
    assert found.status == "ok"
    assert found.text == (
        "0 B of the server's private memory are in swap, of 62 GB of all processes and shared memory, 0 pages/s move"
    )


def test_the_unit_is_the_postmasters() -> None:
    """postgresql.service is a target on Debian, and another server's unit in addition to postgresql-17.service."""
    old = {"setting.io_method": "io_uring", "host.process.memlock_bytes": 64 * kB, "host.kernel": "5.10.0-28-amd64"}
    group = {"host.process.oom_group": True, "host.process.postmaster_oom_adj": 0, "host.memory.overcommit": 0}
    for rule, changes in (("memlock", old), ("oom-group", group), ("oom", group)):
        assert fix(rule, changes)[0] == "# systemctl edit $(ps -o unit= -p $(head -1 $PGDATA/postmaster.pid))"
    assert fix("oom-group", group | {"host.container": "Kubernetes"})[1] == "singleProcessOOMKill: true"


def test_another_page_size_is_advised_where_there_is_one() -> None:
    large = {"host.memory.page_bytes": 64 * kB}
    assert fix("kernel-page", large)[1:] == ["octavo build --data-block 32kB"]  # x86-64, ppc64le …
    arm = fix("kernel-page", large | {"host.machine": "aarch64"})
    assert arm[1].startswith("dnf install kernel-core")
    arm = fix("kernel-page", large | {"host.machine": "aarch64", "host.fs.block_bytes": 64 * kB})
    assert arm[0].startswith("# first copy the files: their filesystem has blocks of 64 kB")


def test_pages_that_are_the_smallest_already_are_not_advised() -> None:
    small = {"host.memory.page_bytes": 4 * kB, "host.fs.block_bytes": 4 * kB, "setting.block_size": 2 * kB}
    for machine in ("x86_64", "aarch64"):
        lines = fix("kernel-page", small | {"host.machine": machine})
        assert lines[1:] == ["octavo build --data-block 4kB"]
        assert "kernel with" not in lines[0] and "RHEL" not in lines[0]


def test_a_filesystem_is_advised_for_the_pages_and_blocks_of_this_host() -> None:
    large = {"host.fs.block_bytes": 64 * kB, "host.memory.page_bytes": 16 * kB}
    lines = fix("kernel-page", large)
    assert "no larger than this kernel's pages (16 kB)" in lines[0]
    assert lines[1].startswith("mkfs.xfs -b size=4096 DEVICE")
    huge = {"host.fs.block_bytes": 128 * kB}
    assert fix("wal-block", huge)[-1] == "mkfs.xfs -b size=4096 DEVICE"
    assert fix("wal-block", huge | {"setting.wal_block_size": 2 * kB})[-1] == "mkfs.xfs -b size=2048 DEVICE"
    on_zfs = fix("wal-block", huge | {"host.fs.type": "zfs"})
    assert on_zfs[:2] == ["ALTER SYSTEM SET wal_recycle = 'off';", "ALTER SYSTEM SET wal_init_zero = 'off';"]


def test_what_takes_the_memory_is_what_is_made_smaller() -> None:
    assert fix("work-mem", {"setting.maintenance_work_mem": 40 * GB}) == [
        "ALTER SYSTEM SET autovacuum_work_mem = '8GB';", "SELECT pg_reload_conf();",
    ]  # fmt: skip
    assert fix("work-mem", {"setting.work_mem": GB})[0].startswith("ALTER SYSTEM SET work_mem = ")
    many = {"setting.work_mem": MB, "setting.hash_mem_multiplier": 2.0, "setting.max_connections": 200_000}
    assert fix("work-mem", many)[:2] == ["# then on standbys", "ALTER SYSTEM SET max_connections = '24528';"]
    assert fix("work-mem", many | {"server.in_recovery": True})[0].startswith("# this is a standby")


def test_limits_of_requests_are_set_not_reset() -> None:
    """RESET returns to the value in postgresql.conf."""
    assert fix("io-combine-limit", {"setting.io_combine_limit": 16 * kB})[0] == (
        "ALTER SYSTEM SET io_combine_limit = '128kB';"
    )
    assert fix("scan-requests", SMALL_READS)[0] == "ALTER SYSTEM SET io_combine_limit = '128kB';"
    few = SMALL_READS | {"setting.io_combine_limit": 128 * kB, "setting.shared_buffers": 16 * MB}
    assert "ALTER SYSTEM SET shared_buffers = '25MB';" in fix("scan-requests", few)


def test_a_server_starts_with_its_larger_wal_segments() -> None:
    """Two segments are the minimum of min_wal_size and max_wal_size."""
    much = {"server.wal.bytes": 20000 * GB, "setting.max_wal_size": GB, "setting.min_wal_size": 80 * MB}
    lines = fix("wal-segment", much)
    assert lines[0] == "ALTER SYSTEM SET min_wal_size = '512MB';"
    assert lines[2].startswith("pg_resetwal --wal-segsize=256 ")
    assert "ALTER SYSTEM SET max_wal_size = '512MB';" in fix("wal-segment", much | {"setting.max_wal_size": 256 * MB})
    assert not any("SET" in line for line in fix("wal-segment", much | {"setting.min_wal_size": GB}))


@pytest.mark.parametrize(
    ("options", "mount", "line", "takes"),
    [
        # Mounting with a stripe for which it was not made is refused, and stops the boot if it is in fstab.
        ("rw", "/data", "mkfs.xfs -d su=524288,sw=4 DEVICE", "a new filesystem"),
        ("rw,sunit=384,swidth=768", "/data", "mkfs.xfs -d su=524288,sw=4 DEVICE", "a new filesystem"),
        # The RAID has grown.
        ("rw,sunit=1024,swidth=3072", "/data", "mount -o sunit=1024,swidth=4096 /data", "restart"),
        ("rw,sunit=256,swidth=1024", "/data", "mount -o sunit=1024,swidth=4096 /data", "restart"),
        ("rw,sunit=1024,swidth=3072", "/", "rootflags=sunit=1024,swidth=4096", "reboot"),
    ],
)
def test_an_xfs_is_realigned_by_mount_options_only_where_it_takes_them(
    options: str, mount: str, line: str, takes: str
) -> None:
    changes = RAID | {"host.fs.options": options, "host.fs.mount": mount}
    assert any(line in one for one in fix("raid-stripe", changes))
    found = result("raid-stripe", changes).finding
    assert found is not None and found.takes.startswith(takes)


@pytest.mark.parametrize(
    ("ratio", "limit", "line"),
    [
        (50, 64 * GB, "echo 'vm.overcommit_ratio = 70' > "),
        (90, 115 * GB, "echo 'vm.overcommit_ratio = 95' > "),
        # overcommit_kbytes is in force. The limit for promises is the memory without the 17,000 huge pages.
        (0, 64 * GB, f"echo 'vm.overcommit_kbytes = {int(64 * GB + 0.2 * (128 * GB - 17000 * 2 * MB)) // kB}' > "),
        (100, 128 * GB, "# all of the memory is committed"),
        (0, 128 * GB, "# all of the memory is committed"),
    ],
)
def test_strict_overcommit_is_never_made_stricter(ratio: int, limit: int, line: str) -> None:
    committed = {"host.memory.commit_limit_bytes": limit, "host.memory.committed_bytes": limit}
    assert fix("overcommit", {"host.memory.overcommit_ratio": ratio, **committed})[0].startswith(line)


def test_an_empty_host_finds_nothing() -> None:
    rules = [rule for name, rule in RULES.items() if name != "predicted-block"]  # it needs a trace, not a host
    results = examine(Facts(), rules)
    assert {one.status for one in results} == {"unknown"}
    assert all("not examined" in one.text for one in results)


def test_docs_list_the_rules_as_they_are() -> None:
    """If this fails: octavo doctor --explain all --format md, into docs/doctor.md."""
    page = (Path(__file__).parents[2] / "docs/doctor.md").read_text()
    assert page.partition("## The rules\n")[2].strip() == table(RULES.values())
    for rule in RULES.values():
        assert rule.name in explain(rule) and rule.source in explain(rule)
