"""Facts about this host, read from /proc and /sys."""

import os
import platform
from pathlib import Path
from typing import Any

from octavo.host.kernel_pages import distribution, page_configuration
from octavo.host.kernel_text import lines
from octavo.host.page_stack import page_stack


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
