"""Costs and lines of the doctor's findings: those of this host, which do not hurt it."""

from typing import Any

import pytest
from tests.unit.doctor_facts import (
    AMPLIFIED,
    AZURE,
    CHECKPOINT,
    EBS,
    GB,
    GOOGLE,
    KHUGEPAGED,
    MB,
    PREDICTED,
    RAID,
    SMALL_PAGES,
    SMALL_READS,
    SPOILT,
    TWICE,
    fix,
    group,
    kB,
    pool,
    result,
)


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
        # Of 6.4 MB/s, 1 MB/s may be temporary files.
        ("read-amplification", AMPLIFIED | {"live.server.temporary_bytes_per_second": 1.0 * MB},
         "6.9 bytes are read for each useful one"),
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
        # A burstable pod may have up to 999, and pods without requests 1000.
        ("oom", {"host.memory.overcommit": 0, "host.process.postmaster_oom_adj": 950, "host.container": "Kubernetes"},
         "its processes are among the first that are killed when"),
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


def test_no_block_is_smaller_than_the_smallest() -> None:
    images: dict[str, Any] = {"setting.wal_compression": "off", "server.wal.full_page_images": 6 * 10**7}
    assert "with blocks of 4 kB each" in str(result("full-page-images", images))
    assert "with blocks of" not in str(result("full-page-images", images | {"setting.block_size": kB}))


def test_a_pool_that_suffices_is_mentioned() -> None:
    pools = SMALL_PAGES | {"host.huge.pools": [pool(total=20_000, free=20_000), pool(GB, 40, 40)]}
    assert result("huge-page-size", pools).text == "pages of 2 MB are requested, of which 20,000 are free"


def test_memory_in_swap_that_the_kernel_does_not_count_by_process_is_mentioned() -> None:
    """VmSwap has no shared memory: all of shared_buffers may be in swap while it is 0."""
    found = result("swap", {"host.swap.total_bytes": 64 * GB, "host.swap.free_bytes": 2 * GB})
    assert found.status == "ok"
    assert found.text == (
        "0 B of the server's private memory are in swap, of 62 GB of all processes and shared memory, 0 pages/s move"
    )


def test_lines_for_huge_pages_are_those_of_hugepages_plan() -> None:
    found = fix("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool(total=10, free=4)]})
    # Six pages of the pool belong to another process.
    assert found[0].startswith("echo 'vm.nr_hugepages = 16902' > /etc/sysctl.d/")
    assert found[1].startswith("cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages   # restart only when it "
                               "prints 16902:")  # fmt: skip
    assert found[2:] == ["ALTER SYSTEM SET huge_pages = 'on';"]


@pytest.mark.parametrize(
    ("said_by", "again"), [("/etc/sysctl.d/99-sysctl.conf", True), ("/etc/sysctl.d/50-x.conf", False)]
)
def test_a_file_that_replaces_the_number_at_boot_is_mentioned(said_by: str, again: bool) -> None:
    """With huge_pages = on and its number the server would not start after a boot."""
    at_boot = {"host.huge.at_boot": [{"page_bytes": 2 * MB, "pages": 100, "said_by": said_by}]}
    line = f"# and the same in {said_by}, which is read after it at boot"
    assert (line in fix("huge-pages-boot", at_boot)) == again
    assert (line in fix("huge-pages-pool", at_boot | {"host.huge.pools": [pool(total=30000, free=13100)]})) == again


def test_pages_of_another_size_are_taken_now_and_at_boot() -> None:
    """Their number has no sysctl, and a restart alone would not find them."""
    lines = fix("huge-pages", SMALL_PAGES | {"host.huge.pools": [pool(), pool(GB)], "setting.huge_page_size": GB,
                                             "setting.shared_memory_size_in_huge_pages": 34})  # fmt: skip
    file = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
    assert lines[0] == f"echo 34 > {file}"
    assert lines[1] == "# for the next boot, on the kernel's command line: hugepagesz=1G hugepages=34"
    assert lines[2].startswith(f"cat {file}   # restart only when it prints 34:")
    idle = {"host.huge.pools": [pool(), pool(GB, 60, 26)], "setting.huge_page_size": GB,
            "setting.shared_memory_size_in_huge_pages": 34}  # fmt: skip
    assert fix("huge-pages-pool", idle)[1:] == lines[:2]


def test_no_pool_is_advised_that_another_one_has_no_room_for() -> None:
    both = SMALL_PAGES | {"host.huge.pools": [pool(), pool(GB, 100, 0)]}
    (line,) = fix("huge-pages", both)
    assert line.startswith("# 16,896 pages are more than nine tenths of the memory without the pools of other sizes")


def test_a_server_whose_small_pages_take_the_memory_is_stopped_first() -> None:
    """The kernel would evict the page cache and swap for a pool of 33 GB where 32 GB are available."""
    small = SMALL_PAGES | {"host.huge.pools": [pool()], "host.memory.available_bytes": 32 * GB}
    lines = fix("huge-pages", small)
    assert lines[0] == "ALTER SYSTEM SET huge_pages = 'on';"  # while it runs
    assert lines[1] == "# then stop the server: the pool takes 33 GB more, and while it runs 32 GB are available"
    assert lines[2].startswith("echo 'vm.nr_hugepages = 16896' > /etc/sysctl.d/")
    assert lines[3].startswith("cat ") and len(lines) == 4
    assert fix("huge-pages", small | {"host.memory.available_bytes": {"unknown": "x"}})[0] == lines[2]
    # 90 % of the pool is subtracted from CommitLimit under vm.overcommit_memory = 2.
    strict = {"host.memory.commit_limit_bytes": 60 * GB, "host.memory.committed_bytes": 50 * GB}
    much = SMALL_PAGES | {"host.huge.pools": [pool()], **strict}
    assert fix("huge-pages", much)[1].endswith("while it runs CommitLimit would fall below Committed_AS")
    assert fix("huge-pages", much | {"host.memory.committed_bytes": 30 * GB})[0] == lines[2]
    assert fix("huge-pages", much | {"host.memory.overcommit": 0})[0] == lines[2]


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


def test_the_name_of_a_group_is_one_word_for_the_shell() -> None:
    """systemd escapes a - in a unit's name as \\x2d, and a user may give a group of his own any name."""
    limits = [group(34 * GB, 2 * GB, name=r"a\x2db.slice/$(id)")]
    pools = [pool(total=40000, free=39000)]
    lines = fix("huge-pages-group", SMALL_PAGES | {"host.huge.group_limits": limits, "host.huge.pools": pools})
    assert r" > '/sys/fs/cgroup/a\x2db.slice/$(id)/hugetlb.2MB.max'" in lines[-1]


def test_a_node_gets_its_pages_before_another_loses_them() -> None:
    file = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
    assert fix("huge-pages-nodes", {"host.huge.pools": [pool(total=17_001, nodes=(17_001, 0))]}) == [
        f"echo 8501 > {file.format(1)}",
        f"cat {file.format(1)}   # go on only when it prints 8501: else the next start lacks pages",
        f"echo 8501 > {file.format(0)}",
    ]


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
    idle = {"server.connections": 1000, "server.idle_connections": 950}
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


def test_the_name_of_a_trace_is_one_word_for_the_shell() -> None:
    found = result("predicted-block", PREDICTED | {"predict.trace": "my trace.octrace"}).finding
    assert found is not None and found.check == "octavo predict 'my trace.octrace'"


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
    assert "ALTER SYSTEM SET shared_buffers = '30MB';" in fix("scan-requests", few)  # 200 connections and 40 more


def test_the_buffers_that_a_backend_may_pin_are_a_share_of_every_process() -> None:
    """PostgreSQL 18 with the defaults: MaxBackends is 136, and there are 38 auxiliary processes."""
    defaults = {
        "setting.max_connections": 100, "setting.autovacuum_worker_slots": 16, "setting.max_worker_processes": 8,
        "setting.max_wal_senders": 10, "setting.io_combine_limit": 128 * kB, "setting.shared_buffers": 16 * MB,
    }  # fmt: skip
    found = result("scan-requests", SMALL_READS | defaults)
    assert found.text.endswith("a backend may pin 94.2 kB of buffers")  # 16 MB / 174
    assert fix("scan-requests", SMALL_READS | defaults)[-2] == "ALTER SYSTEM SET shared_buffers = '22MB';"


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
        (
            "rw,sunit=1024,swidth=3072",
            "/my data",
            "umount '/my data' && mount -o sunit=1024,swidth=4096 '/my data' &&",
            "restart",
        ),
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
