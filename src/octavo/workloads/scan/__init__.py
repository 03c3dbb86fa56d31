"""One scan of a table by one session: the size of PostgreSQL's own reads, and how close the scan comes to the storage's
best rate."""

import json

from octavo.errors import UsageError
from octavo.factor import Factor, one_of, whole_number
from octavo.observation import Metric, Observation, observe
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.datasets.spec import UNVACUUMED
from octavo.units import parse_percentage, parse_size
from octavo.workload_support.explained import heap_blocks, nodes
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.scan import ceiling, table
from octavo.workloads.scan.checkpoint import CheckpointBeside, make_dirty
from octavo.workloads.scan.query import NODES, Scan, problem_of, run_scan

_MB = 1024**2

_SECONDS = Metric("seconds", "time of the scan", "seconds", "lower")
_RATE = Metric("mb_per_second", "scan throughput", "MB/s", "higher")
_REQUESTS = Metric("asked_requests", "read requests of PostgreSQL", "1")
_REQUEST_BYTES = Metric("asked_request_bytes", "bytes per read request of PostgreSQL", "bytes")
_READ_BLOCKS = Metric("shared_read_blocks", "blocks read (Shared Read Blocks)", "1")
_HIT_BLOCKS = Metric("shared_hit_blocks", "blocks found in shared buffers (Shared Hit Blocks)", "1")
_READ_BYTES = Metric("shared_read_bytes", "blocks read, in bytes", "bytes")
_LOSSY = Metric("lossy_heap_blocks", "lossy blocks of the bitmap", "1")
_DIRTIED = Metric("dirtied_blocks", "blocks dirtied by the scan (hint bits)", "1", "lower")
_WRITTEN = Metric("written_blocks", "dirty buffers that the scan's backend had to write", "1", "lower")
_OVERLAP = Metric("checkpoint_share", "share of the scan's time during which the checkpoint ran", "fraction")

# The state of the table when it is scanned, which affects scans in practice besides their requests.
SETTLED, FIRST, CHECKPOINT = "settled", "first after load", "during a checkpoint"
# The share of shared_buffers that the checkpoint has to write; the rest is for the scan.
_DIRTY_SHARE = 0.5


def _share(text: str) -> str:
    try:
        share = parse_percentage(text)
    except UsageError:
        share = -1.0
    parts = share * table.KEYS
    if not 1 <= round(parts) <= table.KEYS or abs(parts - round(parts)) > 1e-6:
        raise UsageError("allowed: 0.01% to 100% in steps of 0.01%")
    return f"{round(parts) / 100:g}%"


class ScanWorkload:
    """Runs the scan once per trial, because a second one would find another cache."""

    factors = (
        Factor("query", "run", "how the table is scanned", "seq-scan", one_of(*NODES)),
        *table.FACTORS,
        Factor("share", "run", "share of the rows that a bitmap or index scan selects", "1%", _share),
        Factor(
            "state",
            "run",
            "state of the table: vacuumed; just loaded, without VACUUM, so that the scan sets hint bits; "
            "or with a concurrent checkpoint",
            SETTLED,
            one_of(SETTLED, FIRST, CHECKPOINT),
        ),
        Factor("workers", "run", "parallel workers in addition to the leader", "0", whole_number(0, 64)),
    )
    metrics = (
        _SECONDS, _RATE, _REQUEST_BYTES, _REQUESTS, *ceiling.METRICS, _READ_BYTES, _READ_BLOCKS, _HIT_BLOCKS,
        _LOSSY, _DIRTIED, _WRITTEN, _OVERLAP,
    )  # fmt: skip

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The table and its placement, its kind of index and whether it is vacuumed. Everything else belongs to a
        run."""
        kind = (("index", "hash"),) if levels["query"] == table.HASH else ()
        vacuum = (UNVACUUMED,) if levels["state"] == FIRST else ()
        return (("workload", "scan"), ("table", levels["table"]), ("placement", levels["placement"]), *kind, *vacuum)

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Makes the table, its index, and the expected answers."""
        table.fill(server, levels, load, scanned_before=levels["state"] != FIRST)

    def database_bytes(self, levels: Levels) -> int:
        """The approximate size of the table and its index."""
        return table.bytes_of(levels)

    def seconds_asked(self, levels: Levels) -> float:
        """For the estimate: a scan at 250 MB per second, and as much time again for the storage's limit."""
        return 2 * table.bytes_of(levels) / (250 * _MB)

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Runs the same scan, unless the first scan is the measured one."""
        if levels["state"] == FIRST:
            return
        with server.connect(DATABASE) as connection:
            run_scan(connection, levels)

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the measured scan. Raises OctavoError when its answer is wrong."""
        checkpoint = None
        if levels["state"] == CHECKPOINT:
            make_dirty(server, int(parse_size(levels["shared_buffers"]) * _DIRTY_SHARE))
            server.disconnect()
            checkpoint = CheckpointBeside(server)
        with server.connect(DATABASE) as connection:
            scan = run_scan(connection, levels, checkpoint)
        problem = problem_of(scan.plan, levels)
        observations = _observations(scan, parse_size(levels["data_block"]))
        if checkpoint is not None:
            observations.append(observe(_OVERLAP, checkpoint.share_of(scan.began, scan.seconds)))
        return WorkloadResult(
            observations=tuple(observations),
            seconds=scan.seconds,
            transactions=1,
            problems=() if problem is None else (problem,),
            output=json.dumps(scan.plan, indent=1) + "\n",
        )

    def afterwards(self, server: Server, levels: Levels, result: WorkloadResult) -> tuple[Observation, ...]:
        """The storage's limit on the same blocks, and the scan's share of it."""
        rate = next((each.value for each in result.observations if each.metric == _RATE.name), None)
        return ceiling.ceiling(server, levels, rate)


def _observations(scan: Scan, block: int) -> list[Observation]:
    """The observations, without rates or request sizes of zero."""
    read = float(scan.plan["Shared Read Blocks"])
    found = [
        observe(_SECONDS, scan.seconds),
        observe(_READ_BLOCKS, read),
        observe(_READ_BYTES, read * block),
        observe(_HIT_BLOCKS, float(scan.plan["Shared Hit Blocks"])),
        observe(_DIRTIED, float(scan.plan["Shared Dirtied Blocks"])),
        observe(_WRITTEN, float(scan.plan["Shared Written Blocks"])),
    ]
    if read:
        found.append(observe(_RATE, read * block / _MB / scan.seconds))
        if scan.asked is not None and scan.asked.requests > 0:
            found.append(observe(_REQUESTS, scan.asked.requests))
            found.append(observe(_REQUEST_BYTES, scan.asked.bytes / scan.asked.requests))
    if any(node["Node Type"] == "Bitmap Heap Scan" for node in nodes(scan.plan)):
        found.append(observe(_LOSSY, float(heap_blocks(nodes(scan.plan), "Lossy"))))
    return found


WORKLOAD = ScanWorkload()
