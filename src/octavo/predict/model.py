"""One size's figures from its simulated rates, under given assumptions: I/O, WAL, CPU, transactions per second."""

import dataclasses
import functools
from dataclasses import dataclass

from octavo.predict.assumptions import LATER_READS, LATER_RECORDS, Assumptions, Figures, Variation, variations
from octavo.predict.conditions import Conditions
from octavo.predict.device import Device
from octavo.predict.images import fill_of_cycle, images_of, records_of
from octavo.predict.queueing import Station, Throughput, throughput
from octavo.predict.rates import Rates
from octavo.predict.recorded import Recorded
from octavo.predict.size import Size
from octavo.predict.wal import Wal, device_page, wal_of

# The iterations of the bisection for the recorded waits, and its upper end in seconds.
_STEPS = 60
_LONGEST_WAIT = 1e3
# With fewer reads per transaction than this the device's speed does not matter.
_HARDLY_READS = 0.02
_BLOCK_WRITES = ("dirty_evictions", "writer_writes", "checkpoint_writes")
# CPU seconds of a read from a device that was not probed: about 3 µs of kernel code without a hypervisor (half the
# time of a read from a fast SSD: Y. Zhong et al., "XRP", OSDI 2022), and 25 µs were seen in a virtual machine
# (docs/experiments/prediction.md); in between.
_CPU_OF_A_READ = 11e-6
# The number of iterations until speed and full-page images agree.
_ROUNDS = 6


def assumed_of(trace: Recorded) -> Assumptions:
    """The likely assumptions, used where the trace does not have the value."""
    likely = Assumptions(commits_a_sync=trace.commits_a_sync)
    if trace.image_bytes is None:
        return likely
    return dataclasses.replace(likely, image_fill=min(1.0, trace.image_bytes / trace.data_block))


def varied(assumed: Assumptions, given: Conditions, layouts: int) -> list[Variation]:
    """The variations of these assumptions."""
    known = None if given.trace.image_bytes is None else fill_of_cycle(assumed, given, given.since_checkpoint(None))
    one = given.base_rates[0]
    return variations(
        assumed.commits_a_sync, given.clients, layouts, known,
        sampled=bool(one.errors), after_checkpoint=bool(one.since_checkpoint), probed=given.device.cpu is not None,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a transaction at a size. Device I/O is None without a simulated page cache."""

    reads: float
    requests: float
    requested_bytes: float
    block_written_bytes: float
    """Bytes that the server writes to the kernel, without WAL."""
    device_reads: float | None
    device_read_bytes: float | None
    device_writes: float | None
    device_written_bytes: float | None
    images: float | None
    wal: Wal | None
    hit_ratio: float
    cache_hit_ratio: float | None
    checkpoint_bytes: float | None


def work(
    size: Size, rates: list[Rates], wal_block: int, assumed: Assumptions, given: Conditions, tps: float | None = None
) -> Work:
    """The work of a transaction at `tps` transactions per second. The more there are per second, the fewer full-page
    images each has, and the more writes each has after a checkpoint."""
    trace = given.trace
    one = rates[min(assumed.layout, len(rates) - 1)]
    octaves = given.octaves(size)
    each = _each(size, one, assumed, given.since_checkpoint(tps))
    wide = (1 + assumed.scatter * one.scatter) * (1 + assumed.elsewhere_reads * octaves)
    wide *= 1 + assumed.later * LATER_READS
    missed = _missed(one.first_hits, assumed)
    seen = each["reads"] - (1 - missed) * each["first_reads"]
    kept = seen / each["reads"] if each["reads"] > 0 else 0.0
    reads = seen * wide
    accesses = each["accesses"] or 1.0
    below = _below(size, one, each, assumed, kept * wide)
    images = images_of(size, one, assumed, given, tps)
    wal = None
    if images is not None and trace.wal_bytes_each is not None and trace.writes_wal:
        records = records_of(assumed, given) * (1 + assumed.elsewhere_records * octaves)
        records *= 1 + assumed.later * LATER_RECORDS
        fill, factor = assumed.image_fill, 1.0
        if not size.is_as_recorded:
            fill = fill_of_cycle(assumed, given, given.since_checkpoint(tps)) + assumed.later_fill
            factor = given.images_factor
        fill = min(1.0, fill * one.fullness * (1 + assumed.elsewhere_fill * min(1.0, octaves)))
        wal = wal_of(records, images * factor, size.data_block, fill, wal_block, assumed.commits_a_sync)
    checkpoint = each["checkpoint_writes"] * size.data_block if trace.has_changes and given.cycle else None
    return Work(
        reads=reads,
        requests=each["requests"] * kept * wide,
        requested_bytes=each["requested_bytes"] * kept * wide,
        block_written_bytes=sum(each[name] for name in _BLOCK_WRITES) * size.data_block,
        device_reads=below[0],
        device_read_bytes=below[1],
        device_writes=below[2] if trace.has_changes else None,
        device_written_bytes=below[3] if trace.has_changes else None,
        images=images,
        wal=wal,
        hit_ratio=min(1.0, max(0.0, 1 - reads / accesses)),
        cache_hit_ratio=None if below[0] is None else below[4],
        checkpoint_bytes=checkpoint,
    )


def _each(size: Size, one: Rates, assumed: Assumptions, since: float | None) -> dict[str, float]:
    """Counts per transaction, among so many after a checkpoint where that time was simulated, shifted by the assumed
    sampling error."""
    each = one.each
    if since is not None and (found := one.after_checkpoint(since / size.data_factor)):
        # Reads are those of the whole warm trace, except for pages read in order to write a part of them.
        more = found["pages_read_to_write"] - each["pages_read_to_write"]
        each = {
            **each, **found, "checkpoint_writes": 0.0,
            "device_reads": max(0.0, each["device_reads"] + more),
            "device_read_bytes": max(0.0, each["device_read_bytes"] + more * size.kernel_page),
        }  # fmt: skip
    if not assumed.sample or not one.errors:
        return each
    return {name: value * max(0.0, 1 + assumed.sample * one.errors.get(name, 0.0)) for name, value in each.items()}


def _missed(hits: float, assumed: Assumptions) -> float:
    """The part of the first reads that the cache of a running server would also have missed."""
    return min(1.0, max(0.0, 1 - hits * (1 + assumed.first_reads)))


def _below(
    size: Size, one: Rates, each: dict[str, float], assumed: Assumptions, kept: float
) -> tuple[float | None, float | None, float | None, float | None, float]:
    """Reads and their bytes, writes and their bytes at the device, and the page cache's share of the reads."""
    if size.memory is None:
        return None, None, None, None, 0.0
    missed = _missed(one.cache_first_hits, assumed)
    kept *= 1 + assumed.cache
    amount = each["device_read_bytes"]
    first = min(amount, each["pages_read_first"] * size.kernel_page)
    stays = (amount - (1 - missed) * first) / amount if amount > 0 else 0.0
    reads = each["device_reads"] * stays * kept
    cached = 1 - min(1.0, each["device_reads"] * stays / each["requests"]) if each["requests"] else 0.0
    # Each block that left shared buffers counts as one write, less what was already written.
    block = max(size.data_block, size.kernel_page)
    dirty = max(0.0, each["dirty_evictions"] + each["writer_writes"] - each["device_written_bytes"] / block)
    dirty *= assumed.written_back
    writes, written = each["device_writes"] + dirty, each["device_written_bytes"] + dirty * block
    return reads, amount * stays * kept, writes, written, cached


def cpu(found: Work, size: Size, own: Work, assumed: Assumptions, given: Conditions) -> float | None:
    """CPU seconds per transaction: as recorded, adjusted for the change in reads, from kernel and device, and WAL."""
    if given.trace.cpu_each is None:
        return None
    more = (found.requests - own.requests) * assumed.cpu_request
    amount = found.requested_bytes - own.requested_bytes + found.block_written_bytes - own.block_written_bytes
    if found.wal is not None and own.wal is not None:
        amount += found.wal.images - own.wal.images
    more += amount * assumed.cpu_byte + _more_reading(found, own, assumed, given.device)
    whole = given.trace.cpu_each * (1 + assumed.other_cpu * given.octaves(size)) + more
    return max(whole, 0.1 * given.trace.cpu_each)


def _more_reading(found: Work, own: Work, assumed: Assumptions, device: Device) -> float:
    """CPU seconds per transaction of more reads from the device than recorded, beyond those of reads from the page
    cache; 0 if the recorded server's are not known."""
    if found.device_reads is None or own.device_reads is None:
        return 0.0
    each = assumed.device_cpu * (_CPU_OF_A_READ if device.cpu is None else device.cpu)
    amount = (found.device_read_bytes or 0.0) - (own.device_read_bytes or 0.0)
    return (found.device_reads - own.device_reads) * each + amount * assumed.device_byte


def busy(found: Work, device: Device) -> float:
    """Seconds for which a transaction keeps the device busy."""
    requests = (found.device_reads or 0.0) + (found.device_writes or 0.0)
    amount = (found.device_read_bytes or 0.0) + (found.device_written_bytes or 0.0)
    return device.seconds(requests, amount)


def _logging(found: Work, assumed: Assumptions, device: Device) -> float:
    if found.wal is None or found.wal.generated <= 16:
        return 0.0
    flushes = 1 / assumed.commits_a_sync if assumed.commits_a_sync else 1.0
    return device.seconds(flushes * device.requests_a_sync, found.wal.device_written)


def speed(size: Size, found: Work, own: Work, assumed: Assumptions, given: Conditions) -> Throughput | None:
    """Transactions per second; None where the trace lacks a needed value, or the device is unknown and matters."""
    trace = given.trace
    if trace.cpu_each is None or trace.clients is None or given.clients is None:
        return None
    processors = trace.processors or 1
    recorded = _stations(trace.cpu_each, 0.0, own, assumed, given.recorded_device, processors)
    others = _others(trace)
    waiting, others = _explained(tuple(recorded), others, processors, trace.clients, trace.overall_tps)
    needed = cpu(found, size, own, assumed, given) or trace.cpu_each
    pace = max(0.1, 1 + assumed.pace * given.own_rates[0].pace)
    stations = _stations(needed / pace, others / pace, found, assumed, given.device, processors)
    for_reads = 0.0
    if own.device_reads is not None and found.device_reads is not None:
        device, was = (_with_latency(one, assumed) for one in (given.device, given.recorded_device))
        if device.latency is not None:
            was = was if was.is_known else device
            waiting -= min(waiting, was.waited(own.device_reads, own.device_read_bytes or 0.0))
            for_reads = device.waited(found.device_reads, found.device_read_bytes or 0.0)
        elif own.device_reads > _HARDLY_READS:
            waited = waiting * assumed.waits
            waiting -= waited
            for_reads = waited * found.device_reads / own.device_reads
        elif found.device_reads > _HARDLY_READS:
            return None  # the duration of these reads is unknown
    return throughput(stations, given.clients, waiting + for_reads)


def _with_latency(device: Device, assumed: Assumptions) -> Device:
    """The device, with the assumed latency if only its limits are known."""
    if device.latency is not None or not device.is_limited:
        return device
    return dataclasses.replace(device, latency=assumed.latency)


def _stations(
    needed: float, others: float, found: Work, assumed: Assumptions, device: Device, processors: int
) -> list[Station]:
    return [
        Station("CPU", needed + others, processors),
        Station("device", busy(found, device) + _logging(found, assumed, device)),
    ]


def _others(trace: Recorded) -> float:
    """CPU seconds per transaction of everything except the server, such as clients on the same host."""
    if trace.host_busy_share is None or trace.processors is None or trace.cpu_each is None:
        return 0.0
    return max(0.0, trace.host_busy_share * trace.processors / trace.overall_tps - trace.cpu_each)


@functools.lru_cache(maxsize=1024)
def _explained(
    recorded: tuple[Station, ...], others: float, processors: int, clients: int, tps: float
) -> tuple[float, float]:
    """How long a recorded transaction waited outside of the stations, and how much CPU other processes took, such that
    the model yields the recorded transactions per second."""

    def model(waiting: float, more: float) -> float:
        first, *rest = recorded
        return throughput([Station("CPU", first.demand + more, processors), *rest], clients, waiting).per_second

    if model(0.0, others) <= tps:  # other processes cannot have used that much CPU
        low, high = 0.0, others
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if model(0.0, middle) > tps else (low, middle)
        return 0.0, low
    low, high = 0.0, _LONGEST_WAIT
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if model(middle, others) > tps else (low, middle)
    return low, others


def settled(
    size: Size, rates: list[Rates], wal_block: int, assumed: Assumptions, given: Conditions
) -> tuple[Work, Throughput | None]:
    """The work of a transaction and the transactions per second. Each depends on the other through the number of
    transactions since a checkpoint. If that number is given, it is used for the counts; the speed is predicted without
    it, from the time since the checkpoint."""
    free = given if given.transactions is None else dataclasses.replace(given, transactions=None)
    own = work(given.own, given.own_rates, given.trace.wal_block, assumed, free)
    found, shared = work(size, rates, wal_block, assumed, free), assumed
    fast = speed(size, found, own, assumed, free)
    for _ in range(_ROUNDS if found.wal is not None else 0):
        if fast is None:
            break
        shared = dataclasses.replace(assumed, commits_a_sync=_sharing(found, fast, wal_block, assumed, free))
        found = work(size, rates, wal_block, shared, free, fast.per_second)
        fast = speed(size, found, own, shared, free)
    if given.transactions is not None:
        found = work(size, rates, wal_block, shared, given)
    return found, fast


def _sharing(found: Work, fast: Throughput, wal_block: int, assumed: Assumptions, given: Conditions) -> float | None:
    """Transactions per flush: the counted number, which includes those that write nothing, or the number that arrive
    while the device is busy with a flush, because these wait for it together (XLogFlush); at most the number of
    clients. A flush waits behind reads unless these have a separate queue."""
    counted, demand = assumed.commits_a_sync, busy(found, given.device) + _logging(found, assumed, given.device)
    if counted is None or not given.device.is_limited or demand <= 0:
        return counted
    waits = 1.0 if given.device.is_throttled else fast.waited.get("device", demand) / demand
    meanwhile = fast.per_second * given.device.seconds(given.device.requests_a_sync, device_page(wal_block)) * waits
    return max(counted, min(float(given.clients or 1), meanwhile))


def figures(size: Size, rates: list[Rates], wal_block: int, assumed: Assumptions, given: Conditions) -> Figures:
    """All predicted figures of a size, by name; None for an unknown one."""
    trace = given.trace
    own = work(given.own, given.own_rates, trace.wal_block, assumed, given)
    found, fast = settled(size, rates, wal_block, assumed, given)
    base = _base_speed(assumed, given)
    likely, low, high = rates[0].relation_bytes
    database = likely if not assumed.growth else low if assumed.growth < 0 else high
    wal = found.wal
    return {
        "hit_ratio": found.hit_ratio,
        "page_cache_hit_ratio": found.cache_hit_ratio,
        "reads_per_transaction": found.reads,
        "read_bytes_per_transaction": found.requested_bytes,
        "device_reads_per_transaction": found.device_reads,
        "device_read_bytes_per_transaction": found.device_read_bytes,
        "device_writes_per_transaction": found.device_writes,
        "device_written_bytes_per_transaction": found.device_written_bytes,
        "device_all_written_bytes_per_transaction": _with_wal(found),
        "full_page_images_per_transaction": found.images,
        "wal_bytes_per_transaction": wal and wal.generated,
        "wal_record_bytes_per_transaction": wal and wal.records,
        "wal_image_bytes_per_transaction": wal and wal.images,
        "wal_header_bytes_per_transaction": wal and wal.headers,
        "wal_written_bytes_per_transaction": wal and wal.written,
        "checkpoint_bytes_per_transaction": found.checkpoint_bytes,
        "database_bytes": database or None,
        "cpu_us_per_transaction": _micro(cpu(found, size, own, assumed, given)),
        "tps": fast and fast.per_second,
        "latency_ms": fast and fast.latency * 1e3,
        "tps_ratio": fast.per_second / base.per_second if fast and base and base.per_second else None,
    }


def _with_wal(found: Work) -> float | None:
    """Bytes written to the device: data and WAL."""
    if found.device_written_bytes is None or found.wal is None:
        return None
    return found.device_written_bytes + found.wal.device_written


def _base_speed(assumed: Assumptions, given: Conditions) -> Throughput | None:
    if assumed not in given.known:
        given.known[assumed] = settled(given.base, given.base_rates, given.trace.wal_block, assumed, given)[1]
    return given.known[assumed]


def _micro(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def bottleneck(
    size: Size, rates: list[Rates], wal_block: int, assumed: Assumptions, given: Conditions
) -> tuple[str, float] | None:
    """The resource with the highest utilization, and that utilization."""
    _, fast = settled(size, rates, wal_block, assumed, given)
    return None if fast is None or not fast.used else (fast.bottleneck, fast.used[fast.bottleneck])
