"""What the user asked for, checked and completed into a sweep."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import UsageError, cannot_read
from octavo.io.engine import Observe
from octavo.io.job import Job
from octavo.io.policies import find_policies
from octavo.io.sweep import Sweep
from octavo.io.target import prepare, with_segments
from octavo.units import format_size, size_option

_SECTOR = 512  # of the engine: every block is a multiple
_BLOCK = 8192  # PostgreSQL's default; a server's own is taken with --from-query
_MAX_REQUEST = 128 * 1024  # io_combine_limit's default (PostgreSQL 17 and later)
_MOST_LIST = 256 * 1024**2
_SECONDS = 5.0
_RUN = 16
_STRIDE_RUNS = 16


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """The command line of `octavo io`; options that were not given are None."""

    files: tuple[Path, ...]
    pattern: str
    block: str | None
    policies: tuple[str, ...]
    run: int | None
    stride: int | None
    block_list: Path | None
    from_query: str | None
    dsn: str
    max_request: str | None
    hole: int
    distance: int
    depth: int
    threads: int
    cache: str
    direct: bool
    readahead: str
    seconds: float | None
    blocks: int | None
    bytes: str | None
    segments: bool
    make: str | None
    write: bool
    verify: bool
    lose_device: bool
    seed: int


def sweep_of(request: SweepRequest, observe: Observe) -> tuple[Sweep, dict[str, Any]]:
    """The sweep, and facts for its document. Makes the file that --make names, and asks the server of --from-query.

    Raises UsageError and HostError.
    """
    policies = find_policies(request.policies)
    facts: dict[str, Any] = {}
    files, block_list, server_block = list(request.files), None, None
    if request.from_query is not None:
        from octavo.io.from_query import blocks_of_query

        visited = blocks_of_query(request.from_query, request.dsn)
        files = files or visited.segments()
        block_list, server_block = visited.block_list(), visited.block
        facts["query"] = visited.as_dict()
    elif request.block_list is not None:
        block_list = _read(request.block_list)
    pattern = _pattern(request, block_list)
    if not files:
        raise UsageError("no file given; for example octavo io /data/test --make 1GB")
    if request.segments:
        files = [segment for file in files for segment in with_segments(file)]
    block = size_option("--block", request.block) if request.block else server_block or _BLOCK
    if block == 0:
        raise UsageError(f"--block {request.block}: it must be above 0, such as 8kB")
    if block % _SECTOR:
        raise UsageError(f"--block {request.block} is not a multiple of {_SECTOR}B; take one, such as 8kB")
    run = request.run if request.run is not None else 1 if request.pattern in ("random", "strided") else _RUN
    # A wrong size is found before --make has written a file that may be large.
    make_bytes = size_option("--make", request.make) if request.make else None
    blocks, max_request = _blocks(request, block), _max_request(request, block)
    paths = prepare(
        files, make_bytes, observe, write=request.write, verify=request.verify, lose_device=request.lose_device
    )
    unbounded = request.seconds is None and blocks is None
    once = unbounded and pattern == "list"
    job = Job(
        paths=paths,
        block=block,
        pattern=pattern,
        run=run,
        stride=request.stride if request.stride is not None else run * _STRIDE_RUNS,
        block_list=block_list,
        hole=request.hole,
        distance=request.distance,
        depth=request.depth,
        write=request.write,
        direct=request.direct,
        lose_device=request.lose_device,
        verify=request.verify,
        threads=request.threads,
        readahead=request.readahead,
        seconds=_SECONDS if unbounded and not once else request.seconds,
        blocks=blocks,
        once=once,
        seed=request.seed,
    )
    facts["device_readahead_bytes"] = _device_readahead(files[0])
    return Sweep(job, policies, _caches(request), max_request), facts


def _pattern(request: SweepRequest, block_list: str | None) -> str:
    if block_list is not None:
        return "list"
    if request.pattern == "list":
        raise UsageError("--pattern list needs the blocks: --block-list FILE, or --from-query SQL --dsn …")
    return "random" if request.pattern == "runs" else request.pattern


def _caches(request: SweepRequest) -> tuple[str, ...]:
    if request.direct:
        return ("found",)
    return ("cold", "warm") if request.cache == "both" else (request.cache,)


def _max_request(request: SweepRequest, block: int) -> int:
    if request.max_request is None:
        return max(_MAX_REQUEST, block)
    size = size_option("--max-request", request.max_request)
    if size < block:
        raise UsageError(
            f"--max-request {request.max_request} is smaller than a block of {format_size(block)}; increase it"
        )
    return size


def _blocks(request: SweepRequest, block: int) -> int | None:
    """The smaller of --blocks and --bytes."""
    limits = [request.blocks, max(1, size_option("--bytes", request.bytes) // block) if request.bytes else None]
    return min((limit for limit in limits if limit is not None), default=None)


def _read(path: Path) -> str:
    from octavo.host.careful_open import read_bytes

    try:
        return read_bytes(path, _MOST_LIST).decode()
    except OSError as error:
        raise cannot_read(error, f"{path} cannot be read: {error.strerror}; name a readable block list") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text; write one block number, or a range such as 17-25, per line") from error


def _device_readahead(path: Path) -> int | None:
    from octavo.host.page_stack import page_stack

    try:
        return next((layer.size_bytes for layer in page_stack(path) if layer.layer == "readahead"), None)
    except OSError:  # the engine says what is wrong with the path
        return None
