"""The kernel's text: /proc, /sys and control groups, which contain names that anybody may choose."""

# pyright: reportPrivateUsage=false
# Some parsers are private to their module.

from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.host import child_group, cpu_times, diskstats, kernel_pages, mounts, process, process_table, procfs
from octavo.host.cgroup import achieved_limit, bytes_besides_kernel, shared_bytes, swapped_bytes
from octavo.host.checks import base, memory
from octavo.host.kernel_value import KernelValue
from octavo.hugepages import apply, boot, groups, pool, postmaster_memory
from octavo.instruments import cpus, pressure
from octavo.iotop import process_info, process_io, terminal_text, trace_lines
from octavo.knobs import enforcer, zram_swap
from octavo.postgres import process_roles
from octavo.workload_support import server_memory

_MOUNTINFO = b"""\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
25 22 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:5 - proc proc rw
31 22 0:27 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
33 31 0:29 /x /sys/fs/cgroup/hugetlb rw shared:11 - cgroup cgroup rw,hugetlb
34 22 7:0 / /var/lib/a\\040b\\134c rw - xfs /dev/loop0 rw
35 31 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
"""
_STAT = (
    b"1234 (postgres: a) b) S 1 1234 1234 0 -1 4194560 1200 0 3 0 12 5 7 9 20 0 1 0 87654 230000000 5000 "
    b"18446744073709551615 1 1 0 0 0 0 0 16781312 536871425 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)
_IO = b"rchar: 100\nwchar: 200\nsyscr: 3\nsyscw: 4\nread_bytes: 8192\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"
_STATUS = (
    b"Name:\tpostgres\nTgid:\t1234\nPid:\t1234\nVmPeak:\t  230000 kB\nVmRSS:\t 2000 kB\nRssAnon:\t 900 kB\n"
    b"RssShmem:\t 300 kB\nVmPTE:\t   120 kB\nVmSwap:\t       0 kB\nHugetlbPages:\t       0 kB\nThreads:\t1\n"
)
_SMAPS = b"""\
00400000-00b3c000 r-xp 00000000 fe:00 1049   /usr/lib/postgresql/bin/postgres
Size:               7408 kB
KernelPageSize:        4 kB
Rss:                3000 kB
7f2a00000000-7f2a10000000 rw-s 00000000 00:01 1025   /dev/zero (deleted)
Size:             262144 kB
KernelPageSize:        4 kB
ShmemPmdMapped:        0 kB
7ffd0000-7ffd2000 r-xp 00000000 00:00 0   [vdso]
Size:                  8 kB
KernelPageSize:        4 kB
"""
_SWAPS = (
    b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/zram0  partition\t16380\t0\t32767\n"
    b"/swap\\040file  file\t1048572\t512\t-2\n"
)
_MEMINFO = (
    b"MemTotal:  8052716 kB\nMemFree:  100 kB\nMemAvailable:  5000 kB\nHugePages_Total:  0\nHugepagesize: 2048 kB\n"
)
_VMSTAT = b"nr_free_pages 1000\npgfault 77\npswpin 0\npswpout 3\npgscan_kswapd 0\n"
_PROC_STAT = b"cpu  100 2 30 4000 50 0 6 0 0 0\ncpu0 50 1 15 2000 25 0 3 0 0 0\nctxt 77\nprocs_running 2\n"
_CGROUP = b"12:hugetlb:/x/y\n4:memory:/\n1:name=systemd:/x\n0::/system.slice/a:b.service\n"
_MEMORY_STAT = b"cache 1000\nrss 200\nshmem 300\nswap 77\ninactive_anon 0\n"
_DISKSTATS = b" 254       0 vda 5 1 80 9 2 0 16 3 0 4 12 1 0 8 0 3 4\n   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11\n"
_KERNEL_CONFIG = b"CONFIG_PAGE_SHIFT=12\n# CONFIG_HUGETLBFS is not set\nCONFIG_PGTABLE_LEVELS=5\n"
_TRACE = (
    b"              dd-7     [002] d..1.    12.000345: block_bio_queue: 253,1 RA 64 + 256 [dd]\n"
    b"              dd-7     [002] d..1.    12.000345: block_io_start: 254,0 RS 8192 () 64 + 16 none,0,0 [dd]\n"
    b"    kworker/u4:1-77    (-----) [000] d..2.  99.1: block_rq_issue: 254,0 WS 4096 () 128 + 8 none,0,0 [kworker]\n"
    b"     iou-wrk-1234-99    [000] d..2.  99.1: block_rq_issue: 254,0 R 4096 () 64 + 8 [iou-wrk-1234]\n"
    b"CPU:1 [LOST 12 EVENTS]\n"
)
_TITLE = b"postgres: 18/main: app shop [local] idle\0\0"
_BUDDYINFO = b"Node 0, zone      DMA      1      1      0      0      2      1      1      0      1      1      3\n"
_MAPS = (
    b"7f2a00000000-7f2a00200000 rw-s 00000000 00:01 1025   /dev/zero (deleted)\n00400000-00b3c000 r-xp 0 fe:00 1 /a\n"
)
_STAT_OF_A_DEVICE = b"5 1 80 9 2 0 16 3 0 4 12\n"
_CHOICE = b"always [madvise] never\n"
_THROTTLE = b"7:0 1048576\n7:1 5\n"


def _file(read: Callable[[Path], object], *names: str) -> Callable[[bytes, Path], object]:
    """The parser of files below a given directory, all of which contain the text."""

    def parse(text: bytes, place: Path) -> object:
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(text)
        return read(place)

    return parse


def _text(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    return lambda text, _: read(text.decode(errors="replace"))


def _identity(place: Path) -> object:
    boot = place / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True, exist_ok=True)
    boot.write_text("0cb8c4a5\n")

    def below(*parts: str) -> Path:
        return place / "/".join(parts).strip("/")

    with patch.object(process, "Path", below):
        return process.identify(7), process.find_by_environment("OCTAVO_TOKEN", "5b0e")


def _swap_check(place: Path) -> object:
    (place / "sys/vm").mkdir(parents=True, exist_ok=True)
    (place / "sys/vm/swappiness").write_text("60\n")
    reading = base.HostCounters(0.0, cpu_times.CpuTimes(0, 0, 0, 0, 0, 0, 0, 0), {}, 0, None)
    return memory.swap(base.Host(place, place, place, reading, reading))


def _group_limits(text: bytes, place: Path) -> object:
    """The groups of one text in the mounts of another, and the other way round."""
    place.joinpath("self").mkdir(exist_ok=True)
    # No path has a NUL or is longer than the kernel's PATH_MAX.
    text = b"\n".join(line[:4000] for line in text.replace(b"\0", b"").split(b"\n"))
    for group, table in ((text, _MOUNTINFO), (_CGROUP, text)):
        (place / "self/cgroup").write_bytes(group)
        (place / "self/mountinfo").write_bytes(table)
        groups.group_limits(2 * 1024**2, proc=place)
    return None


def _look(place: Path) -> object:
    return postmaster_memory.read_postmaster(7, place)


def _look_at_smaps(place: Path) -> object:
    (place / "7/status").write_bytes(_STATUS)
    return postmaster_memory.read_postmaster(7, place)


def _traced(text: bytes, _: Path) -> object:
    attribution = trace_lines.Attribution(lambda thread: thread)
    for line in text.split(b"\n"):
        found = trace_lines.parse_line(line)
        trace_lines.lost_events(line)
        if found is not None:
            attribution.add(found)
    return attribution.names


def _titled(title: str) -> object:
    return (
        process_roles.role_of(title),
        process_roles.role_of(title, "18/main"),
        process_info.cluster_name_of([title]),
        terminal_text.one_line(title),
    )


def _process(place: Path) -> object:
    (place / "7/io").write_bytes(_IO)
    return process_table.read_process(7, place, storage=True), process_table.read_table(place)


def _process_io(place: Path) -> object:
    (place / "7/stat").write_bytes(_STAT)
    return process_table.read_process(7, place, storage=True)


def _settings(place: Path) -> object:
    return boot.at_boot(2 * 1024**2, 2 * 1024**2, place), boot.at_boot(1024**3, 2 * 1024**2, place)


# What only the kernel writes has a fixed form: a missing number is a ValueError, as documented.
_KERNEL = (ValueError,)
PARSERS: Sequence[Parser] = (
    Parser("mountinfo", _file(lambda place: mounts.mounts(place / "mountinfo"), "mountinfo"), (_MOUNTINFO,)),
    Parser(
        "process identity",
        _file(_identity, "proc/7/stat", "proc/7/environ"),
        (_STAT, b"A=b\0OCTAVO_TOKEN=5b0e\0"),
    ),
    Parser("process stat", _file(_process, "7/stat"), (_STAT,), _KERNEL),
    Parser("process io", _file(_process_io, "7/io"), (_IO,), _KERNEL),
    Parser("process status", _file(_look, "7/status", "7/smaps"), (_STATUS,), _KERNEL),
    Parser("process smaps", _file(_look_at_smaps, "7/smaps"), (_SMAPS,), _KERNEL),
    Parser("process maps", _file(lambda place: server_memory.touched(7, 2 * 1024**2, place), "7/maps"), (_MAPS,)),
    Parser("process titles", _text(_titled), (_TITLE,), ()),
    Parser("swaps", _file(lambda place: zram_swap.swaps(place), "swaps"), (_SWAPS,), _KERNEL),
    Parser("swaps of the check", _file(_swap_check, "swaps"), (_SWAPS,), _KERNEL),
    Parser("cgroup of a process", _group_limits, (_CGROUP, _MOUNTINFO)),
    Parser("cgroup limit", _file(lambda at: achieved_limit(at), "memory.max"), (b"1048576\n", b"max\n"), _KERNEL),
    Parser(
        "cgroup memory.stat",
        _file(lambda at: (shared_bytes(at), bytes_besides_kernel(at), swapped_bytes(at)), "memory.stat"),
        (_MEMORY_STAT,),
        _KERNEL,
    ),
    Parser(
        "cgroup processes",
        _file(lambda place: child_group._processes(place), "cgroup.procs"),
        (b"12\n345\n0\n",),
        _KERNEL,
    ),
    Parser(
        "kernel value, choice",
        _file(lambda at: [KernelValue(at / "f", "choice").read(), KernelValue(at / "f", "choice").choices()], "f"),
        (_CHOICE,),
    ),
    Parser(
        "kernel value, device",
        _file(lambda at: KernelValue(at / "f", "device", "7:0").read(), "f"),
        (_THROTTLE,),
    ),
    Parser(
        "kernel value, pool",
        _file(lambda at: KernelValue(at / "nr_hugepages", "pool").read(), "nr_hugepages", "surplus_hugepages"),
        (b"12\n",),
        _KERNEL,
    ),
    Parser(
        "meminfo",
        _file(lambda at: pool.meminfo("Hugepagesize", at), "meminfo"),
        (_MEMINFO,),
        (*_KERNEL, pool.HostError),
    ),
    Parser("buddyinfo", _file(lambda at: apply.free_blocks(2 * 1024**2, at), "proc/buddyinfo"), (_BUDDYINFO,), _KERNEL),
    Parser(
        "huge pages at boot",
        _file(_settings, "proc/cmdline", "etc/sysctl.conf", "etc/sysctl.d/30-a.conf"),
        (b"root=/dev/vda hugepagesz=2M hugepages=0:5,1:7 hugepagesz=1G hugepages=2\n", b"vm.nr_hugepages = 72\n"),
    ),
    Parser("named numbers", lambda text, _: procfs.named_numbers(text), (_VMSTAT, _MEMINFO), _KERNEL),
    Parser("number after", lambda text, _: procfs.number_after(text, b"\nVmPTE:"), (_STATUS,), _KERNEL),
    Parser(
        "pressure",
        lambda text, _: pressure._totals(text),
        (b"some avg10=0.00 avg60=0.00 total=12\nfull total=3\n",),
        _KERNEL,
    ),
    Parser("times of each CPU", lambda text, _: cpus.parse(text), (_PROC_STAT,), ()),
    Parser("cpu times", _file(lambda place: cpu_times.cpu_times(place), "stat"), (_PROC_STAT,), _KERNEL),
    Parser("what a process asked for", lambda text, _: process_io.parse_io(text), (_IO,), ()),
    Parser("kernel's options about pages", _text(kernel_pages.options_about_pages), (_KERNEL_CONFIG,), ()),
    Parser("diskstats", _text(diskstats.parse_diskstats), (_DISKSTATS,), _KERNEL),
    Parser(
        "device counters",
        _file(lambda at: enforcer.served_by("vda", at), "block/vda/stat"),
        (_STAT_OF_A_DEVICE,),
        _KERNEL,
    ),
    Parser("trace_pipe", _traced, (_TRACE,)),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
