"""Each rule on planted facts: those of the well-tuned host with what the row changes."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.doctor_facts import (
    AMPLIFIED,
    AZURE,
    BUSY,
    CHECKPOINT,
    EBS,
    ELSEWHERE,
    GB,
    GOOGLE,
    IDLE_LIVE,
    KHUGEPAGED,
    MANAGED,
    MB,
    MUCH_WAL,
    PREDICTED,
    RAID,
    SMALL_PAGES,
    SMALL_READS,
    SPOILT,
    STOPPED,
    TWICE,
    fix,
    group,
    kB,
    pool,
    result,
    word,
)

from octavo.doctor.engine import examine
from octavo.doctor.explain import explain, table
from octavo.doctor.facts import Facts
from octavo.doctor.rules import RULES


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
        ("read-amplification", AMPLIFIED | {"live.server.long_transactions": {"unknown": "pg_monitor"}}, "unknown"),
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
        ("huge-pages", SMALL_PAGES | ELSEWHERE, "unknown"),
        ("huge-pages", ELSEWHERE, "ok"),  # huge_pages_status
        ("huge-pages", STOPPED, "not applicable"),
        ("huge-pages-pool", {}, "ok"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=17000, free=0, reserved=0)],
                             "setting.shared_memory_size_in_huge_pages": 16898}, "warning"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=17000, free=0, reserved=0)],
                             "setting.shared_memory_size_in_huge_pages": 16897}, "ok"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=20000, free=3100)]}, "note"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=30000, free=13100)]}, "warning"),
        # With huge_pages = on it starts only if the pool has its pages, which are free now.
        ("huge-pages-pool", STOPPED | {"host.huge.pools": [pool(total=17000, free=17000)]}, "ok"),
        ("huge-pages-pool", STOPPED | {"host.huge.pools": [pool(total=17000, free=1000)]}, "error"),
        ("huge-pages-pool", STOPPED | {"setting.huge_pages": "try"}, "not applicable"),
        # Made larger for the next start.
        ("huge-pages-pool", {"host.huge.pools": [pool(total=30000, free=13100)],
                             "server.pending_restart": ["shared_buffers"]}, "ok"),
        ("huge-pages-pool", {"host.huge.pools": [pool(total=30000, free=13100)], "server.pending_restart": ["port"]},
         "warning"),
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
        ("shared-buffers", {"host.memory.group_limit_bytes": 24 * GB,
                            "host.memory.group_counts_huge_pages": True}, "warning"),
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
                         "host.process.median_own_bytes": 4 * MB}, "warning"),
        ("connections", {"server.connections": 1000, "server.idle_connections": 950,
                         "host.process.median_own_bytes": 2 * MB}, "note"),
        ("connections", {"server.connections": 1000, "server.idle_connections": 950,
                         "host.process.median_own_bytes": {"unknown": "x"}}, "unknown"),
        ("connections", {"server.connections": 1000, "server.idle_connections": 200}, "ok"),
        ("connections", {"server.connections": 300, "server.idle_connections": 290}, "ok"),
        ("connections", {"server.connections": 300, "server.idle_connections": 290, "host.cpu.group_cores": 2,
                         "host.process.median_own_bytes": 2 * MB}, "note"),
        ("connections", {"server.connections": 300, "server.idle_connections": 290, "host.cpu.allowed_cores": 2,
                         "host.process.median_own_bytes": 2 * MB}, "note"),
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
        # Without those of CHECKPOINT there is one in an hour.
        ("checkpoints", {"server.checkpoints.requested": 9000, "server.checkpoints.timed": 100,
                         "server.wal.bytes": 1000 * GB}, "ok"),
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
