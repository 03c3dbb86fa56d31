"""Which metrics a report for people shows when a run has more numbers than fit on a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.analysis.item_bottlenecks import READ
from octavo.errors import UsageError
from octavo.workloads import find

# A page of so many numbers has less than half a megabyte of them, and they are analysed in less than a second.
MOST_NUMBERS = 4_000
# The terminal and Markdown show these and no others.
BRIEF = ("wal_bytes_per_transaction", "device_read_bytes_per_transaction", "device_written_bytes_per_transaction")
# What explains a difference comes before the instruments' other figures.
_EXPLAINING = (
    *BRIEF,
    "device_reads_per_second",
    "device_writes_per_second",
    "device_read_kb_per_second",
    "device_written_kb_per_second",
    "device_util",
    "aqu_sz",
    "rareq_sz",
    "wareq_sz",
    "cpu_busy_share",
    "client_cpu_share",
    "buffer_hit_share",
    "wal_amplification",
    "wal_full_page_images_per_transaction",
    "memory_page_tables_bytes",
    "process_page_table_bytes",
    "checkpoints",
)
# A sentence of every report is made of the values of these (`report.items`).
_IN_SENTENCES = ("plan_capture_ratio",)
# Not all of these are shown; verdicts, limitations and bottlenecks are made of them.
_NEEDED = ("wal_bytes", "wal_bytes_per_transaction", "wal_segments_created", *_EXPLAINING, *READ)


def shown_metrics(metrics: Mapping[str, Any], workload: str, cells: int, most: int) -> list[str]:
    """The metrics of which a report has at most so many numbers: the workload's own, then what explains differences,
    then the others in their order. The primary one, those of `BRIEF` and those of sentences are always among them.

    >>> shown_metrics(dict.fromkeys(("a", "b", "rareq_sz", "c")), "imported", 10, 25)
    ['a', 'rareq_sz']
    """
    names = list(metrics)
    own = _own(workload)
    order = [name for name in names if name in own] + [name for name in _EXPLAINING if name in metrics] + names
    always = [names[0], *(name for name in (*BRIEF, *_IN_SENTENCES) if name in metrics)]
    kept = list(dict.fromkeys([names[0], *order]))[: most // max(1, cells)]
    return list(dict.fromkeys([*kept, *always]))


def read_metrics(metrics: Mapping[str, Mapping[str, Any]], shown: Sequence[str]) -> list[str]:
    """The metrics to read in order to show these: they themselves, and those used by sentences and warnings."""
    warning = [name for name, metric in metrics.items() if metric.get("warns")]
    return list(dict.fromkeys([*shown, *(name for name in _NEEDED if name in metrics), *warning]))


def _own(workload: str) -> set[str]:
    """The metrics of a workload; none of one that this Octavo does not know, or of an imported run."""
    try:
        return {metric.name for metric in find(workload).metrics}
    except UsageError:
        return set()
