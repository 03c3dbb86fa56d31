"""The measured reader, `octavo io` as a separate process, and the metrics from its output."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from octavo.errors import OctavoError
from octavo.io.policies import find_policies
from octavo.knobs.volume_types import parse_device
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import Server
from octavo.units import parse_duration, parse_size
from octavo.workload_support.storage_reader import block_list, read_alike
from octavo.workloads.base import Levels, WorkloadResult

# The bytes that the thread reads at once.
_RUN_BYTES = 128 * 1024

_BLOCKS = Metric("blocks_per_second", "wanted blocks a second", "1/s", "higher")
_REQUESTS = Metric("requests_per_second", "requests a second", "1/s")
_REQUEST_BYTES = Metric("bytes_per_request", "bytes per request of the reader", "B")
_ASKED = Metric("asked_per_wanted", "bytes requested per byte wanted", "1", "lower")
_READ = Metric("read_per_wanted", "bytes read at the device per byte wanted", "1", "lower")
_DEVICE_REQUEST = Metric("device_bytes_per_read", "bytes per read at the device", "B")
_CPU = Metric("cpu_us_per_block", "the reader's CPU time per wanted block", "us", "lower")
_MEDIAN = Metric("request_p50_us", "latency of a request, median", "us")
_TAIL = Metric("request_p99_us", "latency of a request, 99th percentile", "us")
_CEILING = Metric("ceiling_blocks_per_second", "wanted blocks a second that the limits allow for these requests", "1/s")

METRICS = (_BLOCKS, _REQUESTS, _REQUEST_BYTES, _ASKED, _READ, _DEVICE_REQUEST, _CPU, _MEDIAN, _TAIL, _CEILING)


def read(server: Server, files: Sequence[Path], blocks: Sequence[int], block: int, levels: Levels, seed: int) -> (
    WorkloadResult
):  # fmt: skip
    """Reads for the requested time: `blocks` in order, or the level's pattern without any. `block` in bytes.

    Raises OctavoError when the reader fails, or when the files were written meanwhile.
    """
    listed = block_list(server.journal, [str(one) for one in blocks]) if blocks else nullcontext()
    with listed as path, unchanged(files):
        result, finished = read_alike(server, files, options(levels, block, path, seed))
    return WorkloadResult(
        observations=observations(result, block, levels["device"]),
        seconds_asked=parse_duration(levels["duration"]),
        seconds=result["seconds"],
        transactions=result["blocks"],
        client_cpu_seconds=finished.cpu_seconds,
        output=finished.stdout + finished.stderr,
    )


def observations(result: dict[str, Any], block: int, device: str) -> tuple[Observation, ...]:
    """The observations from a result of `octavo io` (docs/io.md). `device` is the level, whose limits give the
    ceiling."""
    wanted = result["blocks"] * block
    found = [
        observe(_BLOCKS, result["blocks_per_second"]),
        observe(_REQUESTS, result["requests_per_second"]),
        observe(_REQUEST_BYTES, result["bytes_per_request"]),
        observe(_ASKED, result["bytes"] / wanted),
        observe(_CPU, result["cpu_seconds_per_block"] * 1e6),
        observe(_MEDIAN, result["latency_us"]["p50"]),
        observe(_TAIL, result["latency_us"]["p99"]),
    ]
    seen = result["device"]
    if seen is not None and seen["reads"]:
        found += [observe(_READ, seen["read_bytes"] / wanted), observe(_DEVICE_REQUEST, seen["bytes_per_read"])]
    ceiling = ceiling_of(device, result["requests"] / result["blocks"], result["bytes"] / result["blocks"])
    return (*found, observe(_CEILING, ceiling)) if ceiling is not None else tuple(found)


def ceiling_of(device: str, requests: float, size: float) -> float | None:
    """The blocks per second that the tighter of the device's limits allows, if each block takes so many requests and
    bytes.

    Requests and bytes are limited separately, so the tighter limit decides (docs/experiments/coalescing.md). Of a
    volume with I/O credits it is the limit that it begins with. None without limits.

    >>> ceiling_of("iops=1000,mbps=8", 1.0, 8192), ceiling_of("iops=1000,mbps=8", 0.25, 16384)
    (1000.0, 512.0)
    >>> ceiling_of("gp2:200", 1.0, 8192), ceiling_of("gp2:200,credits=0", 1.0, 8192)
    (3000.0, 600.0)
    """
    volume = parse_device(device)
    if volume is None:
        return None
    limits = volume.at_first
    rates = [limit / each for limit, each in ((limits.requests, requests), (limits.bytes, size)) if limit is not None]
    return min(rates, default=None)


def options(levels: Levels, block: int, block_list: Path | None, seed: int) -> list[str]:
    """The command line of `octavo io` for these levels, without options that would have no effect. A run is as long as
    in the thread, or one larger block; random blocks are read one by one."""
    run = 1 if levels["pattern"] == "random" else max(1, _RUN_BYTES // block)
    blocks = ["list", "--block-list", str(block_list)] if block_list else [levels["pattern"], "--run", str(run)]
    joined = ["--hole", levels["hole"], "--max-request", f"{max(block, parse_size(levels['max_request']))}B"]
    cached = ["--cache", levels["cache"], "--readahead", levels["advice"]]
    is_joined = any(policy.joining == "coalesced" for policy in find_policies((levels["policy"],)))
    return [
        "--pattern", *blocks, "--block", f"{block}B",
        "--policy", levels["policy"], *(joined if is_joined else []),
        *(["--direct"] if levels["access"] == "direct" else cached),
        "--seconds", str(parse_duration(levels["duration"])), "--seed", str(seed),
    ]  # fmt: skip


@contextmanager
def unchanged(files: Sequence[Path]) -> Generator[None, None, None]:
    """Raises OctavoError when the files were written to within the context: hint bits, or a checkpoint."""
    before = [path.lstat().st_mtime_ns for path in files]
    yield
    if [path.lstat().st_mtime_ns for path in files] != before:
        raise OctavoError("the server wrote into the table while it was read: hint bits, or a checkpoint")
