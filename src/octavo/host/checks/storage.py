"""The disk under the data, and the power."""

import shutil
from pathlib import Path

from octavo.host.checks.base import CheckFinding, CheckImpossibleError, Host, read_text
from octavo.units import human_size

_LEAST_FREE = 0.10


def free_space(host: Host) -> CheckFinding:
    """How full the filesystem of the data is."""
    usage = shutil.disk_usage(host.directory)
    share = usage.free / usage.total if usage.total else 0.0
    found = f"{human_size(usage.free)} free, {share * 100:.0f} % of the filesystem of {host.directory}"
    if share >= _LEAST_FREE:
        return CheckFinding("disk space", "fine", found)
    return CheckFinding(
        "disk space",
        "disturbs",
        found,
        "a nearly full filesystem or SSD writes more slowly, and increasingly so",
        "free some space, or set OCTAVO_HOME to another filesystem",
    )


def power(host: Host) -> CheckFinding:
    """Whether the machine runs on its battery."""
    supplies = host.sys / "class/power_supply"
    states = {
        path.name: (read_text(path / "type"), read_text(path / "online" if online else path / "status"))
        for path in (sorted(supplies.iterdir()) if supplies.is_dir() else ())
        if not _is_of_a_device(path) and ((online := (path / "online").exists()) or (path / "status").exists())
    }
    if not states:
        raise CheckImpossibleError("no power supply reported")
    batteries = [name for name, (kind, state) in states.items() if kind == "Battery" and state == "Discharging"]
    # A laptop may be supplied by USB-C, beside a mains adapter that is not plugged in (2: USB PD with a variable
    # voltage; kernel Documentation/ABI/testing/sysfs-class-power).
    is_supplied = any(kind != "Battery" and state in ("1", "2") for kind, state in states.values())
    has_mains = any(kind == "Mains" for kind, _ in states.values())
    if not batteries and (is_supplied or not has_mains):
        return CheckFinding("power", "fine", "not on battery")
    return CheckFinding(
        "power",
        "disturbs",
        f"on battery ({', '.join(batteries) or 'mains off'})",
        "CPU frequency and devices are throttled on battery",
        "plug it in",
    )


def _is_of_a_device(supply: Path) -> bool:
    """Whether it powers something attached to the machine, such as a tablet (kernel power_supply.h, scope)."""
    try:
        return read_text(supply / "scope") == "Device"
    except CheckImpossibleError:
        return False
