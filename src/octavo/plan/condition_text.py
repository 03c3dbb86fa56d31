"""A condition in prose: `memory none, native` is its name, and "no memory limit, no device limit" is what it means."""

import re

from octavo.units import spaced_sizes

_DEVICE = {"mbps": "MB/s", "iops": "IOPS"}


def condition_text(condition: str) -> str:
    """What a condition means.

    >>> condition_text("memory 224MB, mbps=40, read-only"), condition_text("memory none, native")
    ('224 MB of memory, a 40 MB/s device, read-only', 'no memory limit, no device limit')
    >>> condition_text("bitmap 1%, max_request 1MB, loop")
    'bitmap 1 %, requests of up to 1 MB, a private device without limits'
    """
    return ", ".join(_part(part) for part in condition.split(", ") if part)


def _part(part: str) -> str:
    if part == "native":
        return "no device limit"
    if part == "loop":
        return "a private device without limits"
    if part == "hdd":
        return "HDD"
    if part == "memory none":
        return "no memory limit"
    if match := re.fullmatch(r"memory (\d+[kMGT]B)", part):
        return f"{spaced_sizes(match[1])} of memory"
    if match := re.fullmatch(r"max_request (\d+[kMGT]B)", part):
        return f"requests of up to {spaced_sizes(match[1])}"
    limits = part.split(",")
    pairs = [limit.split("=") for limit in limits]
    if all(len(pair) == 2 and pair[0] in _DEVICE and pair[1].isdigit() for pair in pairs):
        return f"a {' and '.join(f'{int(number):,} {_DEVICE[name]}' for name, number in pairs)} device"
    return spaced_sizes(part)
