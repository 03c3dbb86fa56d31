"""The dicts that the core (`octavo._core`) returns for traces. Sizes are bytes, times microseconds."""

from typing import Literal, NotRequired, TypedDict


class Missing(TypedDict):
    """The missing parts of a trace."""

    accesses: int
    bytes: int
    is_cut: bool


class Relation(TypedDict):
    """A relation as the catalog describes it; 0 for unknown, `name` with `--names` only."""

    tablespace: int
    database: int
    relation: int
    kind: str
    blocks: int
    tuples: int
    tuple_bytes: int
    fillfactor: int
    name: str | None


class WalStretch(TypedDict):
    """The WAL written from `start` to `end`; 0 for unknown."""

    start: int
    end: int
    kind: str
    """Resource manager and type of the records, as pg_walinspect writes them; empty for all records."""
    records: int
    full_page_images: int
    bytes: int
    """Bytes of the records, including their images."""
    full_page_image_bytes: int
    growth_bytes: int
    """The growth of the WAL: records, their alignment, and page headers. Only for all records."""


class Summary(TypedDict):
    """The contents of a trace."""

    page_size: int
    reads: int
    pins: int
    """The reads of pages that the backend had already pinned."""
    extends: int
    changes: int
    full_page_images: int
    backends: int
    times: tuple[int, int] | None
    streams: list[tuple[int, int, int, int, int]]
    """Tablespace, database, relation, fork, accesses; most accesses first."""
    properties: dict[str, str]
    settings: dict[str, str]
    relations: list[Relation]
    wal: list[WalStretch]
    events: dict[str, tuple[int, int]]
    """By kind: the number of events, and the sum of their counts."""
    missing: Missing


class Totals(TypedDict):
    """The totals of a simulation."""

    accesses: int
    changes: int
    page_size: int
    missing: Missing


class Curve(TypedDict):
    """LRU hit ratios of pages of one size at the requested capacities."""

    page_size: int
    layout: Literal["merged", "spread", "concentrated"]
    pages: float
    hit_ratios: list[float]
    standard_errors: list[float]


class BufferPoint(TypedDict):
    """The counts of PostgreSQL's buffer manager; for a sample, only those of the sample."""

    page_size: int
    shared_buffers: int
    hit_ratio: float
    hits: int
    reads: int
    extends: int
    evictions: int
    dirty_evictions: int
    checkpoint_writes: int
    full_page_images: int
    usage_counts: list[int]
    sampled: NotRequired[bool]


class PageCacheCounts(TypedDict):
    """The counts of the kernel and the device below a simulated server; sizes are bytes."""

    requests_from_cache: int
    pages_wanted: int
    pages_missing: int
    pages_read_to_write: int
    pages_read_first: int
    """Pages that were read for the first time: they had never been in the page cache."""
    device_reads: int
    device_read_bytes: int
    device_writes: int
    device_written_bytes: int
    dirty_bytes: int


class SimulationSnapshot(TypedDict):
    """The counts of a simulated server up to a time."""

    time: int
    trace_accesses: int
    """Accesses in the trace until then, and the part of them that is in the server's sample."""
    taken_accesses: int
    accesses: int
    hits: int
    reads: int
    first_reads: int
    """Reads of blocks that had not been accessed before."""
    extends: int
    evictions: int
    dirty_evictions: int
    checkpoint_writes: int
    writer_writes: int
    full_page_images: int
    requests: int
    """The server's read requests to the kernel, and their bytes."""
    requested_bytes: int
    page_cache: PageCacheCounts | None


class ServerCounts(SimulationSnapshot):
    """The counts of a simulated server, in total and at each mark."""

    series: list[SimulationSnapshot]
