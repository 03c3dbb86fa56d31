"""The machine: memory, huge pages, transparent huge pages, CPU, memory nodes.

Sources: kernel Documentation/filesystems/proc.rst, admin-guide/sysctl/vm.rst, admin-guide/mm/transhuge.rst and
hugetlbpage.rst, admin-guide/pm/cpufreq.rst.
"""

import os
from pathlib import Path
from typing import Any

from octavo.doctor.collect.reading import fact_of
from octavo.doctor.facts import Fact
from octavo.errors import HostError
from octavo.host.kernel_text import chosen, lines
from octavo.host.memory_nodes import memory_nodes
from octavo.hugepages.boot import at_boot
from octavo.hugepages.groups import group_limits
from octavo.hugepages.limits import container_of
from octavo.hugepages.pool import default_page, read_pools

_VENDORS = {"Amazon EC2": "amazon", "Google": "google"}
# Hyper-V outside of Azure has the same vendor; only Azure's machines have this tag (cloud-init uses it as well).
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
_MEMORY = {
    "host.memory.total_bytes": "MemTotal",
    "host.memory.available_bytes": "MemAvailable",
    "host.memory.commit_limit_bytes": "CommitLimit",
    "host.memory.committed_bytes": "Committed_AS",
    "host.swap.total_bytes": "SwapTotal",
    "host.swap.free_bytes": "SwapFree",
}


def host_facts(root: Path = Path("/"), postmaster: int | None = None) -> list[Fact]:
    """The facts from /proc and /sys that need no server. Limits are those of the postmaster's control groups."""
    return [
        Fact("host.machine", os.uname().machine, "uname -m"),
        Fact("host.kernel", os.uname().release, "uname -r"),
        Fact("host.cores", os.cpu_count() or 1, "sysconf(_SC_NPROCESSORS_ONLN)"),
        _platform(root),
        Fact("host.container", container_of(root), "marks of Kubernetes, Docker, Podman and systemd"),
        *_memory(root),
        *_transparent(root),
        *_huge_pages(root, postmaster),
        *_cpu(root),
        *_nodes(root),
    ]


def _platform(root: Path) -> Fact:
    """The cloud that the machine belongs to, according to its firmware (SMBIOS); null if it seems to belong to none."""
    name, directory = "host.platform", root / "sys/class/dmi/id"
    said = {file: fact_of(file, directory / file).value for file in ("sys_vendor", "chassis_asset_tag")}
    if said["sys_vendor"] in _VENDORS:
        return Fact(name, _VENDORS[said["sys_vendor"]], f"{directory}/sys_vendor")
    if said["chassis_asset_tag"] == _AZURE_TAG:
        return Fact(name, "azure", f"{directory}/chassis_asset_tag")
    return Fact(name, None, f"{directory}: no cloud's")


def _memory(root: Path) -> list[Fact]:
    file, vm = root / "proc/meminfo", root / "proc/sys/vm"
    try:
        told = {name: value for name, _, value in (line.partition(":") for line in lines(file))}
    except OSError as error:
        told: dict[str, str] = {}
        absent = f"{file}: {error.strerror}"
    else:
        absent = f"this kernel has no such line in {file}"
    found = [Fact("host.memory.page_bytes", os.sysconf("SC_PAGE_SIZE"), "getconf PAGESIZE")]
    numbers = {line: text.removesuffix("kB").strip() for line, text in told.items()}
    known = {line: int(number) * 1024 for line, number in numbers.items() if number.isdecimal()}
    for name, line in _MEMORY.items():
        found.append(Fact(name, known[line], f"{file}: {line}") if line in known else Fact(name, unknown=absent))
    # Shared memory is also counted as page cache.
    cache = {"Cached", "Shmem"} <= known.keys()
    found.append(
        Fact("host.memory.file_cache_bytes", max(0, known["Cached"] - known["Shmem"]), f"{file}: Cached less Shmem")
        if cache
        else Fact("host.memory.file_cache_bytes", unknown=absent)
    )
    return [
        *found,
        fact_of("host.memory.overcommit", vm / "overcommit_memory", int),
        fact_of("host.memory.overcommit_ratio", vm / "overcommit_ratio", int),
        fact_of("host.swap.swappiness", vm / "swappiness", int),
    ]


def _transparent(root: Path) -> list[Fact]:
    directory = root / "sys/kernel/mm/transparent_hugepage"
    files = {"enabled": "enabled", "defrag": "defrag", "shmem": "shmem_enabled"}
    found = [fact_of(f"host.thp.{name}", directory / file, chosen) for name, file in files.items()]
    daemon = directory / "khugepaged"
    return [
        *found,
        fact_of("host.thp.khugepaged_pages_to_scan", daemon / "pages_to_scan", int),
        fact_of("host.thp.khugepaged_pause_ms", daemon / "scan_sleep_millisecs", int),
    ]


def _huge_pages(root: Path, postmaster: int | None) -> list[Fact]:
    directory = root / "sys/kernel/mm/hugepages"
    try:
        default, pools = default_page(root / "proc"), read_pools(root / "sys")
    except (HostError, OSError, ValueError) as error:
        return [Fact("host.huge.", unknown=str(error))]
    limits: list[dict[str, Any]] = []
    boot: list[dict[str, Any]] = []
    for pool in pools:
        for one in group_limits(pool.page, postmaster, root / "proc"):
            limits.append(
                {"page_bytes": pool.page, "group": str(one.group), "name": one.name, "limit_bytes": one.limit,
                 "used_bytes": one.used, "reservations": one.reservations}
            )  # fmt: skip
        if said := at_boot(pool.page, default, root):
            boot.append({"page_bytes": pool.page, "pages": said.pages, "said_by": said.said_by})
    groups = f"/proc/{postmaster or 'self'}/cgroup, hugetlb.*"
    return [
        Fact("host.huge.default_page_bytes", default, "/proc/meminfo: Hugepagesize"),
        Fact("host.huge.pools", [pool.as_dict() for pool in pools], str(directory)),
        Fact("host.huge.group_limits", limits, groups),
        Fact("host.huge.at_boot", boot, "sysctl.d and the kernel's command line"),
    ]


def _cpu(root: Path) -> list[Fact]:
    directory = root / "sys/devices/system/cpu"
    found: list[Fact] = []
    for name, file in (
        ("governors", "scaling_governor"),
        ("drivers", "scaling_driver"),
        ("preferences", "energy_performance_preference"),
    ):
        values: set[str] = set()
        for path in directory.glob(f"cpu[0-9]*/cpufreq/{file}"):
            try:
                values.add(path.read_text(errors="replace").strip())
            except OSError:
                continue
        source = f"{directory}/cpu*/cpufreq/{file}"
        absent = f"{source}: not present (a virtual machine?)"
        found.append(Fact(f"host.cpu.{name}", sorted(values), source) if values
                     else Fact(f"host.cpu.{name}", absent=absent))  # fmt: skip
    for name, file in (("lowest", "cpuinfo_min_freq"), ("highest", "cpuinfo_max_freq")):
        found.append(fact_of(f"host.cpu.{name}_kilohertz", directory / "cpu0/cpufreq" / file, int))
    try:
        told = lines(root / "proc/cpuinfo")
    except OSError:
        told = []
    features = next((line for line in told if line.startswith(("Features", "flags"))), None)
    if features is None:
        return [*found, Fact("host.cpu.lse", unknown="/proc/cpuinfo names no features")]
    return [*found, Fact("host.cpu.lse", "atomics" in features.split(), "/proc/cpuinfo: Features")]


def _nodes(root: Path) -> list[Fact]:
    nodes = len(memory_nodes(root / "sys")) or 1
    return [
        Fact("host.numa.nodes", nodes, f"{root}/sys/devices/system/node: those with memory"),
        fact_of("host.numa.balancing", root / "proc/sys/kernel/numa_balancing", int),
        fact_of("host.numa.zone_reclaim", root / "proc/sys/vm/zone_reclaim_mode", int),
    ]
