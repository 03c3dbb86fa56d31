"""Causes of a CPU speed that changes over time."""

import os

from octavo.host.checks.base import CheckFinding, CheckImpossibleError, Host, read_text
from octavo.host.memory_nodes import memory_nodes

GOVERNOR_FIX = "cpupower frequency-set --governor performance"
NUMA_BALANCING_FIX = "sysctl kernel.numa_balancing=0"


def governor(host: Host) -> CheckFinding:
    """The CPUs' frequency governors."""
    paths = sorted((host.sys / "devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    if not paths:
        raise CheckImpossibleError("no cpufreq on this host (a virtual machine?)")
    governors = sorted({read_text(path) for path in paths})
    if governors == ["performance"]:
        return CheckFinding("CPU governor", "fine", "performance")
    return CheckFinding(
        "CPU governor",
        "disturbs",
        ", ".join(governors),
        "the frequency follows the load, so work after an idle moment is slower",
        GOVERNOR_FIX,
    )


def turbo(host: Host) -> CheckFinding:
    """Whether the CPU runs faster while it is cool."""
    switches = (
        ("devices/system/cpu/intel_pstate/no_turbo", "0", "echo 1"),
        ("devices/system/cpu/cpufreq/boost", "1", "echo 0"),
    )
    for name, on, undo in switches:
        path = host.sys / name
        if not path.exists():
            continue
        if read_text(path) != on:
            return CheckFinding("turbo", "fine", "off")
        return CheckFinding(
            "turbo",
            "note",
            "on",
            "the clock frequency drops as the CPU heats up; only changes slower than a round cancel",
            f"{undo} > {path}",
        )
    raise CheckImpossibleError("not reported (no intel_pstate, no cpufreq/boost)")


def smt(host: Host) -> CheckFinding:
    """Whether two hardware threads share a core."""
    state = read_text(host.sys / "devices/system/cpu/smt/control")
    if state != "on":
        return CheckFinding("SMT", "fine", {"notsupported": "not supported by this CPU"}.get(state, state))
    return CheckFinding(
        "SMT",
        "note",
        "on",
        "a thread's speed depends on its sibling, so CPU share is not proportional to work",
        f"echo off > {host.sys / 'devices/system/cpu/smt/control'}",
    )


def throttling(host: Host) -> CheckFinding:
    """Whether the CPU has been slowed down because it was hot."""
    paths = list((host.sys / "devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    if not paths:
        raise CheckImpossibleError("not counted on this host")
    count = sum(int(read_text(path)) for path in paths)
    if count == 0:
        return CheckFinding("CPU throttling", "fine", "never since boot")
    return CheckFinding(
        "CPU throttling",
        "note",
        f"{count} times since boot",
        "a hot CPU is throttled, which slows down later trials",
        "improve the cooling, or lower the frequency permanently",
    )


def autogroup(host: Host) -> CheckFinding:
    """Whether the scheduler groups processes by session, so that niceness does not reach across."""
    if read_text(host.proc / "sys/kernel/sched_autogroup_enabled") == "0":
        return CheckFinding("autogroup scheduling", "fine", "off")
    return CheckFinding(
        "autogroup scheduling",
        "note",
        "on",
        "CPU time is divided by session: nice on another process does not protect the server from it (sched(7))",
        "stop the process; nice is not enough",
    )


def numa_balancing(host: Host) -> CheckFinding:
    """Whether the kernel moves pages between NUMA nodes meanwhile."""
    nodes = memory_nodes(host.sys)
    if len(nodes) < 2:
        return CheckFinding("NUMA balancing", "fine", "one node")
    if read_text(host.proc / "sys/kernel/numa_balancing") == "0":
        return CheckFinding("NUMA balancing", "fine", f"off, {len(nodes)} nodes")
    return CheckFinding(
        "NUMA balancing",
        "note",
        f"on, {len(nodes)} nodes",
        "the kernel unmaps and migrates pages while a trial runs",
        NUMA_BALANCING_FIX,
    )


def virtualization(host: Host) -> CheckFinding:
    """Whether a hypervisor is below."""
    flags = next((line for line in read_text(host.proc / "cpuinfo").splitlines() if line.startswith("flags")), None)
    if flags is None:
        raise CheckImpossibleError("unknown")
    if "hypervisor" not in flags.split():
        return CheckFinding("virtualization", "fine", "none seen")
    return CheckFinding(
        "virtualization",
        "note",
        f"a virtual machine with {os.cpu_count() or 1} CPUs",
        "load of other machines on the same hardware varies; only CPU steal is visible from here",
    )
