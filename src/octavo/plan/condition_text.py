"""A condition in prose: `memory none, native` is its name, and "no memory limit, no device limit" is what it means."""

import re

from octavo.units import spaced_sizes

_DEVICE = {"mbps": "MB/s", "iops": "IOPS"}
_WORDS = {
    "native": "no device limit",
    "loop": "a private device without limits",
    "hdd": "HDD",
    "memory none": "no memory limit",
    "random": "random blocks",
    "runs": "random runs of 128 kB",
    "same": "the same blocks",
    "advice normal": "with readahead",
    "advice random": "without readahead",
}


def condition_text(condition: str) -> str:
    """A condition in words.

    >>> condition_text("memory 224MB, mbps=40, read-only"), condition_text("memory none, native")
    ('224 MB of memory, a 40 MB/s device, read-only', 'no memory limit, no device limit')
    >>> condition_text("bitmap 0.2%, max_request 1MB, loop, advice random")
    'bitmap heap scan of 0.2 % of the rows, requests of up to 1 MB, a private device without limits, without readahead'
    """
    return ", ".join(_part(part) for part in condition.split(", ") if part)


def _part(part: str) -> str:
    if part in _WORDS:
        return _WORDS[part]
    if match := re.fullmatch(r"bitmap ([\d.]+)%", part):
        return f"bitmap heap scan of {match[1]} % of the rows"
    if match := re.fullmatch(r"memory (\d+[kMGT]B)", part):
        return f"{spaced_sizes(match[1])} of memory"
    if match := re.fullmatch(r"max_request (\d+[kMGT]B)", part):
        return f"requests of up to {spaced_sizes(match[1])}"
    limits = part.split(",")
    pairs = [limit.split("=") for limit in limits]
    if all(len(pair) == 2 and pair[0] in _DEVICE and pair[1].isdigit() for pair in pairs):
        return f"a {' and '.join(f'{int(number):,} {_DEVICE[name]}' for name, number in pairs)} device"
    return spaced_sizes(part)


def capital(text: str) -> str:
    """A text as a sentence begins: a word with a capital, a figure or a setting's name as it is.

    >>> capital("read-only"), capital("iops=1000, cold"), capital("8 kB"), capital("data_block 8kB"), capital(",")
    ('Read-only', 'iops=1000, cold', '8 kB', 'data_block 8kB', ',')
    """
    first = re.split(r"[ ,:]", text)[0]
    return f"{text[:1].upper()}{text[1:]}" if first.replace("-", "").isalpha() else text
