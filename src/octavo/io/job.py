"""One measurement, as the engine takes it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """Which blocks of which files become which requests, and what ends it. The engine reads the attributes by name."""

    paths: tuple[str, ...]
    """The files or block devices, in the order of their blocks."""
    block: int
    """Bytes of a block: a multiple of 512."""
    pattern: str
    """`sequential`, `random`, `strided` or `list`."""
    run: int = 1
    """Blocks that are visited in a row; of lists what is consecutive."""
    stride: int = 1
    """Blocks from the beginning of one run to that of the next (strided)."""
    block_list: str | None = None
    """The blocks of the pattern `list`: a number or a range (`17-25`) a line."""
    joining: str = "single"
    """What is one request: `single` (a block), `run`, or `coalesced` (neighbours, with holes)."""
    most: int = 1
    """The most blocks of a joined request."""
    hole: int = 0
    """The most largest hole, in blocks, that is read through."""
    method: str = "plain"
    """`plain` (pread, pwrite), `cache-first`, `advised` (posix_fadvise), `vectored` (preadv) or `ring` (io_uring)."""
    distance: int = 32
    """How many requests ahead the advice is."""
    depth: int = 32
    """Requests in flight on each thread's ring."""
    write: bool = False
    """Write what `verify` checks, instead of reading."""
    direct: bool = False
    """Bypass the page cache (O_DIRECT)."""
    durable: bool = False
    """Each write is on the device before it ends (O_DSYNC); of no effect on reading."""
    lose_device: bool = False
    """Write to a block device, too."""
    verify: bool = False
    """Check every block that is read."""
    threads: int = 1
    """Each has its own share of the blocks."""
    cache: str = "cold"
    """The page cache beforehand: `cold`, `warm` or `found`."""
    readahead: str = "normal"
    """What the kernel is told of the files: `normal`, `random` or `sequential` (posix_fadvise)."""
    seconds: float | None = None
    """How long at most; this, `blocks` or `once` is needed."""
    blocks: int | None = None
    """How many blocks at most."""
    once: bool = False
    """Every block once, then it ends."""
    seed: int = 1
    """Of random orders."""
