"""The hot paths of Octavo and what talks to the kernel, written in Rust (crates/octavo-core)."""

import os
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, final

from octavo.binary.core_types import ElfReport
from octavo.trace.core_types import BufferPoint, Curve, Missing, ServerCounts, Summary, Totals

@final
class DeviceStatistics:
    """The counters of one block device since boot or since the device was attached.

    All but `in_flight` only grow. The kernel writes the millisecond counters as 32-bit numbers,
    which wrap after 49.7 days of I/O time; on a 32-bit machine the others are no wider.
    Source: /proc/diskstats, described in the kernel's Documentation/admin-guide/iostats.rst.
    """

    @property
    def device(self) -> str:
        """The device's name below /dev, such as `nvme0n1p2` or `dm-0`."""
    @property
    def major(self) -> int:
        """The device number's first half: the driver."""
    @property
    def minor(self) -> int:
        """The device number's second half: which of the driver's devices or partitions."""
    @property
    def reads(self) -> int:
        """Completed read requests."""
    @property
    def reads_merged(self) -> int:
        """Read requests that were merged into a neighbouring one and are not in `reads`."""
    @property
    def read_bytes(self) -> int:
        """Bytes read."""
    @property
    def read_milliseconds(self) -> int:
        """Time that all reads took together, queueing included."""
    @property
    def writes(self) -> int:
        """Completed write requests."""
    @property
    def writes_merged(self) -> int:
        """Write requests that were merged into a neighbouring one and are not in `writes`."""
    @property
    def written_bytes(self) -> int:
        """Bytes written."""
    @property
    def write_milliseconds(self) -> int:
        """Time that all writes took together, queueing included."""
    @property
    def in_flight(self) -> int:
        """Requests begun and not completed yet: a gauge, not a counter."""
    @property
    def io_milliseconds(self) -> int:
        """Time during which at least one request was in flight, to the precision of a jiffy."""
    @property
    def weighted_io_milliseconds(self) -> int:
        """Time that all requests took together: grows by `in_flight` milliseconds every millisecond."""
    @property
    def discards(self) -> int | None:
        """Completed discard requests (TRIM, UNMAP, DEALLOCATE); None before Linux 4.18."""
    @property
    def discards_merged(self) -> int | None:
        """Discard requests that were merged into a neighbouring one and are not in `discards`."""
    @property
    def discarded_bytes(self) -> int | None:
        """Bytes discarded."""
    @property
    def discard_milliseconds(self) -> int | None:
        """Time that all discards took together."""
    @property
    def flushes(self) -> int | None:
        """Completed flushes of the device's write cache; None before Linux 5.5, 0 for partitions and volumes.

        The kernel merges concurrent flushes: there are fewer than fsync(2) calls.
        """
    @property
    def flush_milliseconds(self) -> int | None:
        """Time that all flushes took together."""

def device_statistics(path: str | os.PathLike[str]) -> DeviceStatistics:
    """The counters of the block device on which the filesystem of `path` lies.

    That is the partition, whole disk or device-mapper volume that is mounted there. Taken before
    and after a piece of work, the difference is that work's device I/O plus that of everything
    else that used the same device meanwhile.

    Raises:
        FileNotFoundError: there is nothing at `path`.
        LookupError: the filesystem has no block device of its own (tmpfs, overlayfs, NFS, btrfs),
            or the kernel does not list that device here.
        OSError: `path` or /proc/diskstats is refused to this user.
        ValueError: /proc/diskstats is not as the kernel documents it.
    """

def markers_that_reach(text: bytes, markers: list[bytes]) -> list[bool]:
    """For each marker, whether it can reach the object code of this preprocessed C translation unit.

    `text` is what the preprocessor wrote; a marker is the exact spelling of a constant that occurs
    nowhere else, such as `0x00000002000`; at most 32. Releases the interpreter's lock while it reads.
    False is certain; where the text leaves room for doubt, the answer is True.
    """

class _IoJob(Protocol):
    """The attributes that `io_run` reads; `octavo.io.job.Job` has them and says what they mean."""

    @property
    def paths(self) -> Sequence[str]: ...
    @property
    def block(self) -> int: ...
    @property
    def pattern(self) -> str: ...
    @property
    def run(self) -> int: ...
    @property
    def stride(self) -> int: ...
    @property
    def block_list(self) -> str | None: ...
    @property
    def joining(self) -> str: ...
    @property
    def most(self) -> int: ...
    @property
    def hole(self) -> int: ...
    @property
    def method(self) -> str: ...
    @property
    def distance(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def write(self) -> bool: ...
    @property
    def direct(self) -> bool: ...
    @property
    def durable(self) -> bool: ...
    @property
    def verify(self) -> bool: ...
    @property
    def threads(self) -> int: ...
    @property
    def cache(self) -> str: ...
    @property
    def readahead(self) -> str: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def blocks(self) -> int | None: ...
    @property
    def once(self) -> bool: ...
    @property
    def seed(self) -> int: ...

@final
class IoOutcome:
    """What one measurement of the I/O engine gave."""

    @property
    def seconds(self) -> float:
        """How long it took, writing back at the end included."""
    @property
    def sync_seconds(self) -> float:
        """How long writing back at the end took."""
    @property
    def cpu_seconds(self) -> float:
        """CPU of the threads that made the requests, and of the kernel's own threads for io_uring."""
    @property
    def requests(self) -> int:
        """Reads or writes; advice is none."""
    @property
    def blocks(self) -> int:
        """Blocks that were wanted."""
    @property
    def bytes(self) -> int:
        """Bytes that were asked for: with holes, and what is read again from the cache."""
    @property
    def file_bytes(self) -> int:
        """Bytes of the whole blocks of all files."""
    @property
    def cached_bytes(self) -> int | None:
        """Bytes of the files in the page cache when it began; None before Linux 6.5, and with O_DIRECT."""
    @property
    def laps(self) -> int:
        """How often the files were made cold, or 1."""
    @property
    def device(self) -> tuple[int, int, int, int] | None:
        """Reads, their bytes, writes, their bytes at the files' devices, of everybody; None where it cannot be told."""
    def latency(self, quantile: float) -> float:
        """Seconds below which this share of the requests stayed, to three digits; 0.5 for the median."""
    def latency_mean(self) -> float:
        """Mean seconds of a request."""

def io_run(job: _IoJob, observe: Callable[[str, float, int], object]) -> IoOutcome:
    """Measures one job without the interpreter's lock.

    `observe` is called every 0.1 seconds with `"measuring"`, seconds and blocks so far, or before that with
    `"filling"`, bytes read into the page cache and bytes of all. What it raises ends the measurement and is raised
    here, and so are signals' exceptions, such as KeyboardInterrupt.

    Raises:
        ValueError: the job, or a path in it, makes no sense.
        OSError: the system refused something, or a file became shorter while it was read.
        NotImplementedError: the kernel offers no io_uring to this process.
        AssertionError: `verify` found something else than what `io_make` or a write had put there.
    """

def io_make(path: str | os.PathLike[str], bytes: int, observe: Callable[[str, float, int], object]) -> bool:
    """Makes a new file of this many bytes (a multiple of 512) whose contents `verify` can check.

    `observe` is called with `"making"`, bytes so far and of all. What it raises is raised here; the file is removed.

    Raises:
        ValueError: not a multiple of 512.
        OSError: something is there already, the system refuses it, or there is no room; no file is left.
    """

def io_is_own(path: str | os.PathLike[str]) -> bool:
    """Whether `io_make` made this file, by its first and last sector.

    Raises:
        ValueError: there is no such file.
        OSError: it cannot be read.
    """

_Path: TypeAlias = str | os.PathLike[str]

def trace_summary(path: _Path, observe: Callable[[int], object]) -> Summary:
    """Reads all of a trace, without the interpreter's lock, over what is damaged.

    `observe` is called now and then with the accesses so far, here and below; what it raises, and signals' exceptions,
    end the work and are raised here.

    Raises:
        ValueError: nothing of it is a trace, or it has a later version of the format.
        OSError: it cannot be read.
    """

def trace_cut(
    source: _Path, target: _Path, start: int, until: int, relation: int | None, observe: Callable[[int], object]
) -> tuple[int, Missing]:
    """Writes what is at or after `start` and before `until`, of one file number or of all.

    Returns how many accesses that are, and what of the source is missing. Raises as `trace_summary`.
    """

def trace_import(source: _Path, format: str, target: _Path, page_size: int, properties: list[tuple[str, str]]) -> int:
    """Makes a trace of a file in the format `csv`, `oracle-general`, `iolog` or `blktrace`; returns its accesses.

    Raises:
        ValueError: the page size is none, or a line of the file is none of this format.
        OSError: something cannot be read or written.
    """

def trace_export(source: _Path, format: str, target: _Path) -> Missing:
    """Writes a trace as `csv`, `oracle-general` or `iolog`. Returns what of it is missing. Raises as `trace_import`."""

def trace_curves(
    path: _Path,
    own_size: int,
    page_sizes: list[int],
    capacities: list[int],
    *,
    rate: float | None,
    seed: int,
    threads: int,
    observe: Callable[[int], object],
    part: tuple[int, int] = (0, 1),
    concentrated: list[int] | None = None,
) -> tuple[Totals, list[Curve]]:
    """LRU hit ratios at the capacities (bytes) for pages of each size (bytes), in one pass over the trace.

    `own_size` is the trace's page size. Smaller pages have two curves: accesses `spread` over the parts of a page as
    far as can be, and `concentrated` on one part, which follows from the curve of `own_size`: of all smaller
    `page_sizes`, or of the sizes `concentrated`. With a rate only this part of the pages is followed; `part` (k, n) is
    the k-th, from 0 on, of n disjoint parts of these, by hash: a sample of its own.

    Raises:
        ValueError: as `trace_summary`, or pages of a size that cannot be made.
        OSError: it cannot be read.
    """

def trace_buffers(
    path: _Path,
    own_size: int,
    points: list[tuple[int, int, int, int, int]],
    *,
    rate: float | None,
    seed: int,
    threads: int,
    observe: Callable[[int], object],
) -> tuple[Totals, list[BufferPoint]]:
    """PostgreSQL's buffer manager at points (page size, shared_buffers, rings of bulk reads, bulk writes and VACUUM,
    all in bytes), in one pass. With a rate in miniature. Raises as `trace_curves`."""

class _ServerPoint(Protocol):
    """The attributes that `trace_servers` reads; `octavo.trace.simulate.Point` says what they mean."""

    @property
    def data_block(self) -> int: ...
    @property
    def layout(self) -> str: ...
    @property
    def shared_buffers(self) -> int: ...
    @property
    def bulk_read_ring(self) -> int: ...
    @property
    def bulk_write_ring(self) -> int: ...
    @property
    def vacuum_ring(self) -> int: ...
    @property
    def combine_limit(self) -> int: ...
    @property
    def page_cache(self) -> int | None: ...
    @property
    def kernel_page(self) -> int: ...
    @property
    def readahead(self) -> int: ...
    @property
    def largest_request(self) -> int: ...
    @property
    def dirty_expire(self) -> int: ...
    @property
    def writer_delay(self) -> int: ...
    @property
    def writer_rounds(self) -> float: ...
    @property
    def writer_pages(self) -> int: ...
    @property
    def writer_multiplier(self) -> float: ...
    @property
    def writer_flush(self) -> int: ...
    @property
    def checkpoint_flush(self) -> int: ...
    @property
    def checkpoint_interval(self) -> int | None: ...
    @property
    def checkpoint_from(self) -> int: ...
    @property
    def log_rate(self) -> float: ...
    @property
    def log_image(self) -> float: ...
    @property
    def log_kept(self) -> int: ...

def trace_servers(
    path: _Path,
    own_size: int,
    points: Sequence[_ServerPoint],
    *,
    threads: int,
    observe: Callable[[int], object],
    marks: Sequence[int] = (),
    sample: tuple[int, int] = (1, 1),
) -> tuple[Totals, list[ServerCounts]]:
    """What servers with these settings would have done with a trace's accesses: shared buffers, the kernel's page
    cache and the device, in one pass over the trace, empty at its beginning. `series` has the counts at each mark
    (microseconds) and at the end. With a sample (n, m) each server is n miniatures in a row, each of one in m pages (m
    is a power of two up to 64), and counts are those of the sample. Raises as `trace_curves`."""

def trace_policy(
    path: _Path,
    own_size: int,
    page_size: int,
    policy: Literal["lru", "fifo", "clock"],
    capacities: list[int],
    *,
    threads: int,
    observe: Callable[[int], object],
) -> tuple[Totals, list[int]]:
    """Hits of a textbook policy at capacities in pages, in one pass. Raises as `trace_curves`."""

@final
class TraceWriter:
    """A trace that is being written; whole up to the last `flush`, whatever happens then."""

    def __init__(self, path: _Path, page_size: int) -> None:
        """Raises ValueError for no page size, OSError when the file cannot be made."""
    def describe(self, name: str, value: str) -> None:
        """Something about the trace itself."""
    def setting(self, name: str, value: str) -> None:
        """A setting of the server."""
    def relation(
        self,
        tablespace: int,
        database: int,
        relation: int,
        *,
        kind: str,
        blocks: int,
        tuples: int,
        tuple_bytes: int,
        fillfactor: int,
        name: str | None,
    ) -> None:
        """A relation as the catalog describes it."""
    def event(self, time: int, kind: str, count: int) -> None:
        """Something that happened. Raises ValueError for a kind that there is not."""
    def wal(
        self,
        start: int,
        end: int,
        kind: str,
        *,
        records: int,
        full_page_images: int,
        bytes: int,
        full_page_image_bytes: int,
        growth_bytes: int,
    ) -> None:
        """What was written to the WAL from `start` to `end` (microseconds): of one kind of records, or of all ("")."""
    def push(self, accesses: Sequence[tuple[int, int, int, int, int, int, int, int, int]]) -> None:
        """Accesses: time, backend, tablespace, database, relation, fork, block, kind and strategy as numbers."""
    def guess_scans_up_to(self, blocks: int) -> None:
        """Scans of relations up to so many blocks are guessed from blocks in a row; of others the server says it."""
    def push_records(self, file: int, backend: int, records: bytes) -> tuple[int, int]:
        """The next records of a backend's file, of a tracing build; `push_probes` writes them. Returns how many bytes
        were taken, and how many records make no sense."""
    def forget_records(self, file: int) -> None:
        """Nothing more of this file comes."""
    def push_probes(self, printed: bytes, began: int, keep: int) -> tuple[int, list[str]]:
        """What bpftrace printed, a line an access: nanoseconds, pid, fork, block, tablespace, database, relation,
        backend of a temporary table or -1, whether it extends. All but the last `keep` nanoseconds is written in the
        order of time; what was `began` is time 0. Returns how many events were lost, and lines that are no accesses."""
    @property
    def accesses(self) -> int:
        """How many there are."""
    def flush(self) -> None:
        """Writes what was gathered."""
    def finish(self) -> None:
        """Writes the rest, and that nothing is missing at the end; waits until it is on the disk."""

def binary_scan(
    path: str | os.PathLike[str], observe: Callable[[int], object], /
) -> list[tuple[str | None, ElfReport | None, str | None]]:
    """What is in an ELF file, or in those of a package (.deb) or archive (.a): name inside, report, or the problem.

    `observe` is called with the bytes unpacked so far, and may raise to end it. Raises OSError when the file cannot be
    read, ValueError when it is none of these or is damaged.
    """
