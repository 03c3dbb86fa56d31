"""Facts about this host, read from /proc and /sys."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from octavo.host.kernel_pages import distribution, page_configuration
from octavo.host.kernel_text import lines
from octavo.host.page_stack import page_stack

# These must not change during a run: otherwise its rounds would not be comparable.
_SAME = ("hostname", "kernel", "cpu")


def host_facts(path: Path) -> dict[str, Any]:
    """The host as a report shows it: kernel, CPU, memory, and the page stack below a path."""
    return {
        "hostname": platform.node(),
        "distribution": distribution(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "kernel_page_configuration": page_configuration(),
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "virtualization": virtualization(),
        "root": os.geteuid() == 0,
        "page_stack": [layer.as_dict() for layer in page_stack(path)],
    }


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Which of the facts that must not change during a run has changed, or None.

    CPUs of 64-bit Arm and POWER had no name before: what their runs have stored is "unknown" or the architecture.

    >>> changed({"kernel": "Linux 6.12 aarch64", "cpu": "unknown"}, {"kernel": "Linux 6.12 aarch64", "cpu": "Arm"})
    >>> changed({"kernel": "Linux 6.12 x86_64", "cpu": "A"}, {"kernel": "Linux 6.12 x86_64", "cpu": "B"})
    'cpu'
    """
    for name in _SAME:
        if name in before and before[name] != now.get(name):
            nameless = ("unknown", str(now.get("kernel")).rpartition(" ")[2])
            if name != "cpu" or before[name] not in nameless:
                return name
    return None


def cpu_model(proc: Path = Path("/proc")) -> str:
    """The CPU as /proc/cpuinfo names it. A 64-bit Arm kernel has no names, only the numbers of maker and design
    (arch/arm64/kernel/cpuinfo.c)."""
    found: dict[str, str] = {}
    for line in lines(proc / "cpuinfo"):
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    for name in ("model name", "Model", "cpu model", "cpu"):
        if name in found:
            return found[name]
    if "CPU part" in found:
        numbers = (f"{what} {found.get(f'CPU {what}', 'unknown')}" for what in ("implementer", "part", "variant"))
        return f"Arm {', '.join(numbers)}"
    return platform.processor() or "unknown"


def virtualization(proc: Path = Path("/proc")) -> str:
    """`virtual machine` if the CPU reports a hypervisor (its flag in /proc/cpuinfo), else `none seen`; `unknown` on a
    CPU that has no such flag, as all but x86."""
    flags = next((line for line in lines(proc / "cpuinfo") if line.startswith("flags")), None)
    if flags is None:
        return "unknown"
    return "virtual machine" if "hypervisor" in flags.split() else "none seen"
