"""Interactions between the layers of the page stack on this host, computed from their sizes.

Sources: PostgreSQL's manual (huge_pages, full_page_writes, io_combine_limit) and its limits in
`octavo.postgres.limits`; kernel Documentation/admin-guide/mm/hugetlbpage.rst and transhuge.rst; what was measured is
in docs/knobs.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from octavo.host.page_stack import Layer
from octavo.postgres.limits import DATA_BLOCKS, DEFAULT_BLOCK, WAL_BLOCKS
from octavo.units import format_size, parse_size, spaced_sizes

# The amount of memory in examples.
_BUFFERS = parse_size("1GB")
# A page table uses 8 bytes for each page that a process has touched, on x86-64 and on 64-bit Arm.
_ENTRY = 8


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two layers, and the effect of their sizes."""

    layers: tuple[str, str]
    effect: str

    def as_dict(self) -> dict[str, Any]:
        """The interaction for JSON."""
        return asdict(self)


def neighbours(stack: Sequence[Layer]) -> list[Neighbours]:
    """Sentences on how the layers of this stack interact, from the CPU down to the device."""
    sizes: dict[str, int] = {layer.layer: layer.size_bytes for layer in stack if layer.size_bytes}
    lines = [
        *_huge_pages(stack, sizes),
        *_wal(sizes),
        *_requests(sizes),
        *_filesystem(sizes),
        *_device(sizes),
    ]
    return [Neighbours(layers, spaced_sizes(effect)) for layers, effect in lines]


_Effects = list[tuple[tuple[str, str], str]]


def _huge_pages(stack: Sequence[Layer], sizes: Mapping[str, int]) -> _Effects:
    page = sizes["CPU memory page"]
    lines: _Effects = []
    tables = _BUFFERS // page * _ENTRY
    lines.append((
        ("CPU memory page", "shared_buffers"),
        f"1GB of shared_buffers are {_BUFFERS // page:,} pages of {format_size(page)}: every process that has touched "
        f"them all holds {format_size(tables)} of page tables, 100 of them {format_size(100 * tables)}",
    ))  # fmt: skip
    for layer in stack:
        if layer.layer == "huge page" and layer.size_bytes:
            lines.append((("huge page", "shared_buffers"), _pool(layer, layer.size_bytes)))
        if layer.layer == "transparent huge page" and "shared memory: " in layer.detail:
            mode = layer.detail.partition("shared memory: ")[2].partition(";")[0]
            gets = "may get" if mode in ("always", "force", "within_size") else "get no"
            lines.append((
                ("transparent huge page", "shared_buffers"),
                f"shmem_enabled is {mode}: shared_buffers {gets} transparent huge pages whatever enabled is, "
                "which is for sorts, hashes and other private memory",
            ))  # fmt: skip
    return lines


def _pool(layer: Layer, page: int) -> str:
    # shared_memory_size_in_huge_pages rounds up all of shared memory, which is larger than shared_buffers.
    whole = -(-(_BUFFERS + 1) // page) * page
    text = f"with pages of {layer.value}, 1GB of shared_buffers take {format_size(whole)} or more (whole pages)"
    if layer.detail.endswith(" 0 free"):
        text += "; none is free: huge_pages = try uses small pages, huge_pages = on does not start"
    return text


def _wal(sizes: Mapping[str, int]) -> _Effects:
    # The page cache reads blocks of the filesystem, even if its own pages are larger (fs/iomap/buffered-io.c).
    whole = sizes.get("filesystem block", 0)
    smaller = [block for block in WAL_BLOCKS if parse_size(block) < whole]
    if not smaller:
        return []
    return [(
        ("WAL block", "filesystem block"),
        f"WAL blocks of {_and(smaller)} are parts of a {format_size(whole)} block of the filesystem: if that is not "
        "cached, the kernel reads it before such a write",
    )]  # fmt: skip


def _requests(sizes: Mapping[str, int]) -> _Effects:
    lines: _Effects = []
    ahead, largest = sizes.get("readahead"), sizes.get("largest device request")
    if ahead and ahead >= 2 * DEFAULT_BLOCK:
        lines.append((
            ("data block", "readahead"),
            f"the kernel reads {format_size(ahead)} ahead of a buffered sequential scan, {ahead // DEFAULT_BLOCK:,} "
            f"blocks of {format_size(DEFAULT_BLOCK)}: the device sees the same requests at every block size",
        ))  # fmt: skip
    request = sizes["I/O request of PostgreSQL"]
    if largest:
        fate = (
            "reach the device as one request"
            if request <= largest
            else f"are split into {-(-request // largest)} at the device"
        )
        lines.append((("I/O request of PostgreSQL", "largest device request"), f"{format_size(request)} {fate}"))
    if ahead and largest and ahead > largest:
        lines.append((
            ("readahead", "largest device request"),
            f"{format_size(ahead)} read ahead go to the device in {-(-ahead // largest)} requests",
        ))  # fmt: skip
    return lines


def _filesystem(sizes: Mapping[str, int]) -> _Effects:
    page, block = sizes["CPU memory page"], sizes.get("filesystem block", 0)
    lines: _Effects = []
    smaller = [name for name in DATA_BLOCKS if parse_size(name) < max(block, page)]
    unit = max(block, page)
    if smaller:
        lines.append((
            ("data block", "filesystem block"),
            f"data blocks of {_and(smaller)} are parts of {format_size(unit)}, the smallest unit of the page cache: "
            f"a miss reads {format_size(unit)}, and so does a write of an uncached block",
        ))  # fmt: skip
    larger = [name for name in DATA_BLOCKS if parse_size(name) > unit]
    if larger:
        times = " to ".join(dict.fromkeys(str(parse_size(name) // unit) for name in (larger[0], larger[-1])))
        lines.append((
            ("data block", "filesystem block"),
            f"data blocks of {_and(larger)} are {times} times {format_size(unit)}: the filesystem does not guarantee "
            "atomic writes of them",
        ))  # fmt: skip
    if block > page:
        lines.append((
            ("filesystem block", "CPU memory page"),
            f"the page cache works in folios of {format_size(block)} or more, as on a machine with such memory pages",
        ))  # fmt: skip
    return lines


def _device(sizes: Mapping[str, int]) -> _Effects:
    sector = sizes.get("device physical sector")
    if not sector:
        return []
    lines: _Effects = []
    torn = [name for name in DATA_BLOCKS if parse_size(name) > sector]
    if torn:
        lines.append((
            ("data block", "device physical sector"),
            f"data blocks of {_and(torn)} are larger than a sector of {format_size(sector)}, which is all that "
            "a device writes atomically: a power failure may tear them, so keep full_page_writes on",
        ))  # fmt: skip
    inside = [name for name in DATA_BLOCKS if parse_size(name) < sector]
    if inside:
        lines.append((
            ("data block", "device physical sector"),
            f"data blocks of {_and(inside)} are parts of a sector: with direct I/O each write costs the device "
            "a read",
        ))  # fmt: skip
    return lines


def _and(names: Sequence[str]) -> str:
    """Joins names; a long list is shortened to its ends."""
    return " and ".join(names) if len(names) < 3 else f"{names[0]} to {names[-1]}"
