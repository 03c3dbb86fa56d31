"""The NUMA nodes that have memory.

A node may have CPUs alone: its memory slots are empty, or all of its memory is offline. From Linux 6.2 on such a node
has a pool of huge pages like the others (hugetlb_register_all_nodes in mm/hugetlb.c), which stays empty.
"""

from pathlib import Path

_DIRECTORY = "devices/system/node"


def memory_nodes(sys: Path = Path("/sys")) -> list[int]:
    """Their numbers, in order; every node's where the kernel does not list them. Empty without NUMA."""
    directory = sys / _DIRECTORY
    try:
        text = (directory / "has_memory").read_text().strip()
        return [node for part in text.split(",") if part for node in _range(part)]
    except (OSError, ValueError):
        return sorted(int(path.name[4:]) for path in directory.glob("node[0-9]*"))


def _range(text: str) -> range:
    """A part of a list such as "0,2-3" (kernel Documentation/ABI/stable/sysfs-devices-node).

    >>> list(_range("2-4")), list(_range("7"))
    ([2, 3, 4], [7])
    """
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
