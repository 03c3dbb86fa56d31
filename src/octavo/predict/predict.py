"""The document of `octavo predict`: the effect of every page size on a recorded workload."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import HostError, UsageError
from octavo.predict import advice
from octavo.predict.assumptions import Assumptions, Interval, intervals
from octavo.predict.conditions import Conditions
from octavo.predict.device import Device, device_of
from octavo.predict.five_minutes import Prices, break_even
from octavo.predict.image_correction import correction
from octavo.predict.layout import troubles
from octavo.predict.memory import memory_of
from octavo.predict.model import assumed_of, bottleneck, figures, settled, varied
from octavo.predict.rates import Rates
from octavo.predict.recorded import MOST_ELSEWHERE, Recorded, cycle_of, recorded
from octavo.predict.sampling import EXTENT, Sample
from octavo.predict.simulation import chosen_sample, simulate
from octavo.predict.size import Size
from octavo.predict.what_if import WhatIf
from octavo.trace.files import Observe, ignore_progress
from octavo.trace.simulate import KERNEL_PAGE, told_size
from octavo.trace.surface import PAGE_SIZES
from octavo.units import format_size, human_size

SCHEMA_VERSION = 1
WAL_BLOCKS = tuple(1024 << power for power in range(7))
# If first accesses whose outcome is unknown are a larger part of the reads than this, nothing is predicted.
_MOST_UNKNOWN = 0.5
# A cache that did not fill hardly matters if it has room for less than this part of the unseen pages.
_LEAST_ROOM = 0.2
_SCANS = 0.05


@dataclass(frozen=True, slots=True)
class Request:
    """The options of a prediction. Sizes are bytes. Empty values default to the recorded ones."""

    path: Path
    data_blocks: tuple[int, ...] = PAGE_SIZES
    wal_blocks: tuple[int, ...] = ()
    shared_buffers: tuple[int, ...] = ()
    memory: int | None = None
    kernel_page: int | None = None
    """None: the recorded host's."""
    device: str | None = None
    recorded_device: str | None = None
    is_throttled: bool = False
    """The device's limits are set by Linux, as for a run's devices."""
    clients: int | None = None
    checkpoint: float | None = None
    until_checkpoint: bool = False
    """Predict only the time after a checkpoint and before the next one, at most a cycle: only evicted pages are
    written, which are clean at first."""
    transactions: Mapping[int, float] = dataclasses.field(default_factory=dict[int, float])
    """By data block, the number of transactions since the last checkpoint, where that is known and not the time."""
    slice_seconds: float | None = None
    """The length of a slice: how long a server runs at once before it is frozen while others run."""
    readahead: int | None = None
    dirty_background: int | None = None
    writer_pages: Mapping[int, int] = dataclasses.field(default_factory=dict[int, int])
    """bgwriter_lru_maxpages by data block, where it is not the recorded one."""
    flushes: Mapping[int, tuple[int, int]] = dataclasses.field(default_factory=dict[int, tuple[int, int]])
    """bgwriter_flush_after and checkpoint_flush_after in blocks, by data block, where they are not as recorded."""
    huge_pages: bool = False
    prices: Prices = dataclasses.field(default_factory=Prices)
    what_if: WhatIf = dataclasses.field(default_factory=WhatIf)
    threads: int = 0
    exact: bool = False
    """Simulate all pages of a large trace, not a sample of them."""


def predict(request: Request, observe: Observe = ignore_progress) -> dict[str, Any]:
    """Returns the document. Raises HostError when nothing can be predicted from the trace, UsageError for impossible
    sizes."""
    what_if = request.what_if.device
    device = device_of(request.device) if what_if is None else device_of(what_if, "--what-if device")
    recorded_device = device_of(request.recorded_device, "--recorded-device")
    if request.device is None and what_if is None:
        device = recorded_device
    device = dataclasses.replace(device, is_throttled=request.is_throttled)
    if request.prices.device is not None and not device.is_limited:
        raise UsageError(
            "the five-minute rule needs the limits of the device besides its price; give them with --device"
        )
    trace = recorded(request.path, observe)  # after what is quick to check
    cycle = cycle_of(trace, request.checkpoint)
    here = trace.shared_buffers or (request.shared_buffers[0] if request.shared_buffers else None)
    if here is None:
        raise HostError(f"{request.path} does not contain the size of shared_buffers; give it, as --shared-buffers 1GB")
    buffers = request.shared_buffers or (here,)
    _check(request, trace, buffers)
    kernel_page = request.kernel_page or told_size(trace.summary, "kernel_page_bytes", KERNEL_PAGE)
    own = Size(
        trace.data_block,
        here,
        _recorded_memory(trace, here, request.memory),
        kernel_page,
        is_as_recorded=True,
        readahead=request.readahead,
    )
    factor = request.what_if.data
    asked = [
        Size(
            block,
            size,
            request.memory,
            kernel_page,
            factor,
            has_checkpoints=not request.until_checkpoint,
            readahead=request.readahead,
            dirty_background=request.dirty_background,
            writer_pages=request.writer_pages.get(block),
            flushes=request.flushes.get(block),
            slice_seconds=request.slice_seconds,
        )
        for size in buffers
        for block in request.data_blocks
    ]
    base = Size(
        trace.data_block, buffers[0], request.memory, kernel_page, factor,
        has_checkpoints=not request.until_checkpoint,
        readahead=request.readahead, dirty_background=request.dirty_background,
        writer_pages=request.writer_pages.get(trace.data_block), flushes=request.flushes.get(trace.data_block),
        slice_seconds=request.slice_seconds,
    )  # fmt: skip
    more = advice.more_memory(base)
    simulated = [own, *asked, base, *more]
    sample = Sample() if request.exact else chosen_sample(trace, simulated)
    rates = simulate(trace, simulated, cycle, observe, request.threads, sample)
    _refuse_uncovered(trace, own, rates[own][0])
    clients = request.clients or (trace.clients and max(1, round(trace.clients * request.what_if.transactions)))
    assumed = assumed_of(trace)
    given = Conditions(
        trace, own, rates[own], base, rates[base], device, recorded_device, clients, cycle,
        correction=correction(trace, rates[own][0], assumed.image_fill),
    )  # fmt: skip
    if request.until_checkpoint and cycle is not None:  # again, at the speed predicted for each
        asked, base = [_paced(size, rates, assumed, given) for size in asked], _paced(base, rates, assumed, given)
        simulated = [*asked, base, *advice.more_memory(base)]
        rates |= simulate(trace, simulated, cycle, observe, request.threads, sample)
        given = dataclasses.replace(given, base=base, base_rates=rates[base])
    wal_blocks = request.wal_blocks or (trace.wal_block,)
    sizes = [
        _described(trace, size, rates[size], wal_block, assumed, _since(given, request, size))
        for size in asked
        for wal_block in wal_blocks
    ]
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "trace": str(request.path),
        "recorded": _recorded_part(trace, rates[own][0], cycle),
        "sample": _sample_part(trace, sample, [rates[size][0] for size in asked]),
        "conditions": {
            "device": dataclasses.asdict(device),
            "memory_bytes": request.memory,
            "kernel_page_bytes": kernel_page,
            "huge_pages": request.huge_pages,
            "clients": clients,
            "checkpoint_seconds": cycle,
            "until_checkpoint": request.until_checkpoint,
            "what_if": dataclasses.asdict(request.what_if),
        },
        "sizes": sizes,
        "break_even": break_even(request.data_blocks, device, request.memory, request.prices),
        "limitations": limitations(trace, request, device, rates),
    }
    document["recommendation"] = advice.recommend(trace, document, base, rates, assumed, given)
    return document


def _paced(size: Size, rates: Mapping[Size, list[Rates]], assumed: Assumptions, given: Conditions) -> Size:
    """The size with its pace set to its predicted speed over the trace's."""
    _, fast = settled(size, rates[size], given.trace.wal_block, assumed, given)
    if fast is None or not math.isfinite(fast.per_second):
        return size
    return dataclasses.replace(size, pace=fast.per_second / given.trace.tps)


def _since(given: Conditions, request: Request, size: Size) -> Conditions:
    transactions = request.transactions.get(size.data_block)
    return given if transactions is None else dataclasses.replace(given, transactions=transactions)


def _recorded_memory(trace: Recorded, buffers: int, asked: int | None) -> int | None:
    """The memory available to the recorded server for buffers and page cache: three quarters of its host's memory; as
    requested if that is not in the trace, unless its buffers alone are larger."""
    if asked is None or (trace.memory is None and asked > buffers):
        return asked
    return max(round(0.75 * (trace.memory or 0)), 2 * buffers)


def _check(request: Request, trace: Recorded, buffers: Sequence[int]) -> None:
    own = trace.data_block
    if own not in PAGE_SIZES:
        raise UsageError(
            f"the trace's pages of {human_size(own)} are not a data block size of PostgreSQL (1 kB to 32 kB)"
        )
    for size in buffers:
        if request.memory is not None and request.memory <= size:
            raise UsageError(
                f"--memory {format_size(request.memory)} leaves nothing beside shared_buffers of {format_size(size)}"
            )


def _refuse_uncovered(trace: Recorded, own: Size, rates: Rates) -> None:
    """Raises HostError when the caches of the recorded size itself are not known to be warm in this trace."""
    first, reads = rates.each["first_reads"], rates.each["reads"]
    unsure = _LEAST_ROOM < rates.first_hits < 1
    if unsure and first > _MOST_UNKNOWN * reads and reads > 0.01:
        raise HostError(
            f"{trace.path}: the working set is not covered: shared_buffers of {human_size(own.shared_buffers)} did not "
            f"fill, and {first / reads:.0%} of the reads in the later half are of pages that were accessed for the "
            "first time; record for longer"
        )


def _described(
    trace: Recorded, size: Size, rates: list[Rates], wal_block: int, assumed: Assumptions, given: Conditions
) -> dict[str, Any]:
    """A size's figures with their intervals, its memory, and what would not fit."""
    found = intervals(
        lambda one: figures(size, rates, wal_block, one, given),
        assumed,
        varied(assumed, given, len(rates)),
    )
    connections = given.clients or int(trace.setting("max_connections") or 100)
    memory = memory_of(size.shared_buffers, size.data_block, connections, size.kernel_page)
    limit = bottleneck(size, rates, wal_block, assumed, given)
    return {
        "data_block_bytes": size.data_block,
        "wal_block_bytes": wal_block,
        "shared_buffers_bytes": size.shared_buffers,
        "is_recorded": size.data_block == trace.data_block and size.shared_buffers == trace.shared_buffers,
        "figures": {name: _as_dict(interval) for name, interval in found.items()},
        "bottleneck": limit and {"name": limit[0], "used": limit[1]},
        "memory": dataclasses.asdict(memory),
        "troubles": troubles(trace.relations, trace.data_block, size.data_block),
    }


def _as_dict(interval: Interval | None) -> dict[str, float | str] | None:
    return None if interval is None else interval.as_dict()


def _recorded_part(trace: Recorded, own: Rates, cycle: float | None) -> dict[str, Any]:
    """The recorded values, and how the simulation of the same server compares with the server's own counters."""
    checks: dict[str, Any] = {}
    if trace.images_each and trace.has_changes:
        checks["full_page_images"] = own.each["full_page_images"] / trace.images_each
    if trace.reads_each and own.is_full:
        checks["reads"] = own.each["reads"] / trace.reads_each
    return {
        "data_block_bytes": trace.data_block,
        "wal_block_bytes": trace.wal_block,
        "shared_buffers_bytes": trace.shared_buffers,
        "seconds": trace.seconds,
        "transactions": trace.transactions,
        "tps": trace.tps,
        "clients": trace.clients,
        "cpu_us_per_transaction": None if trace.cpu_each is None else trace.cpu_each * 1e6,
        "wal_bytes_per_transaction": trace.wal_bytes_each,
        "commits_per_sync": trace.commits_a_sync,
        "accesses": trace.summary["reads"] + trace.summary["extends"],
        "server_version_num": trace.summary["properties"].get("server_version_num"),
        "simulated_over_counted": checks,
    }


def _sample_part(trace: Recorded, sample: Sample, rates: Sequence[Rates]) -> dict[str, Any] | None:
    """The sample, if not everything was simulated, and the largest error of reads: the device's, if there is one."""
    if sample.replicates == 1:
        return None
    errors = [one.errors["device_reads" if one.each["device_reads"] else "reads"] for one in rates]
    return {
        "share": sample.share,
        "replicates": sample.replicates,
        "extent_bytes": EXTENT * trace.data_block,
        "reads_error": max(errors, default=0.0),
    }


def limitations(trace: Recorded, request: Request, device: Device, rates: dict[Size, list[Rates]]) -> list[str]:
    """The limitations of the figures, most important first."""
    found = [
        "query plans are not predicted: they are assumed to stay as recorded. octavo plans and the preset olap-costs "
        "measure which plans other page sizes get"
    ]
    scans = _scanned(next(iter(rates.values()))[0])
    if scans > _SCANS:
        found.append(
            f"at least {scans:.0%} of the reads are of large scans, whose queries may get another plan at another page "
            "size: the prediction excludes that effect"
        )
    if not trace.has_changes and trace.writes_wal is not False:
        found.append(
            "the trace has no page changes (a tracing build records them): full-page images, checkpoints and data "
            "writes are not predicted, and WAL only as recorded"
        )
    if request.until_checkpoint and trace.has_changes and not trace.has_commits_by_time:
        found.append(
            "the trace does not have the commits of each second (it would with pg_walinspect in the database): all "
            "transactions are assumed to have the same number of accesses, which gives newly loaded tables too few "
            "full-page images"
        )
    if (share := trace.elsewhere) > MOST_ELSEWHERE:
        found.append(
            f"{share:.0%} of the accesses are to other databases than that of the recorder (--dsn), whose relations "
            "are not in the trace: rows per page, the size of relations and the cost of switching are those of the rest"
        )
    if request.memory is None:
        found.append("without --memory no page cache and no device reads are simulated")
    if trace.cpu_each is None or trace.clients is None:
        found.append("the trace has no CPU time per transaction: TPS is not predicted")
    elif not device.is_known and request.memory is not None:
        found.append(
            "the device is not known (--device): half of the recorded transactions' waits is assumed to be for the "
            "device's reads (interval: none to all); if the recorded server hardly read from it, the TPS of sizes "
            "that do read is unknown"
        )
    elif device.cpu is None and request.memory is not None:
        found.append(
            f"the CPU time of a read from {device.name} is not known, and matters on a fast device: octavo io probe "
            "--format json measures it; the ratio of TPS to the recorded block is affected less"
        )
    if any(0 < one.cache_first_hits < 1 for many in rates.values() for one in many):
        found.append("the simulated page cache did not fill: first accesses of pages have an interval")
    if any(block < trace.data_block for block in request.data_blocks):
        found.append(
            f"blocks smaller than {human_size(trace.data_block)}: which part of a page was needed is not recorded; "
            "parts are assumed to be accessed again as often as each page of a pair of neighbours"
        )
    found.append("the number of levels of indexes is assumed to stay; at other sizes it may differ by one")
    return found


def _scanned(rates: Rates) -> float:
    """The least share of the reads that scans combine with others."""
    reads = rates.each["reads"]
    return max(0.0, 1 - rates.each["requests"] / reads) if reads > 0 else 0.0
