"""Storage reads that contradict the cache state that the plan declares."""

import os

from octavo.lab.validity.evidence import Evidence
from octavo.units import human_size, parse_percentage, parse_size

# The bytes of programs, libraries and catalogs that a trial may read for the first time. Fewer bytes prove nothing.
_ASIDE = 16 * 1024**2


def judge(evidence: Evidence) -> str | None:
    """Invalid when a warm cell that fits memory read much, or a cold one almost nothing.

    Reads are those of our own processes if they are known, else the device's.
    """
    database: int | None = evidence.facts.get("database_bytes")
    if database is None:
        return None
    match evidence.levels.get("cache"):
        case "warm":
            return _too_many(evidence, database)
        case "cold":
            return _too_few(evidence, database)
        case _:
            return None


def _too_many(evidence: Evidence, database: int) -> str | None:
    """More than `most_warm_reads` of a database that fits memory twice, not counting its copy in shared buffers.

    Reads for WAL are excluded: a WAL block smaller than a memory page is written into a page that is read first. So is
    direct I/O, which bypasses the page cache.
    """
    read = evidence.read_bytes
    if read is None or "data" in evidence.settings.get("debug_io_direct", ""):
        return None
    memory: int = evidence.facts.get("memory_limit_bytes") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    buffers = parse_size(evidence.levels.get("shared_buffers", "0B"))
    if 2 * database + buffers > memory:
        return None
    most = evidence.thresholds.most_warm_reads
    if read <= parse_percentage(most) * database + evidence.numbers.get("wal_bytes", 0.0) + _ASIDE:
        return None
    return f"warm, yet {human_size(read)} were read from storage (more than {most} of {human_size(database)})"


def _too_few(evidence: Evidence, database: int) -> str | None:
    """Less than `fewest_device_reads` of the blocks that the server requested from the kernel, each block counted once
    for each time that the caches were emptied.

    A workload that restarts the server to empty them counts both itself (`cold_requested_bytes`,
    `cold_device_read_bytes`), because the restart ends the instruments that query the server.
    """
    read: float | None = evidence.facts.get("cold_device_read_bytes", evidence.read_bytes)
    wanted = min(evidence.requested_bytes, database * max(1, evidence.facts.get("restarts", 0)))
    fewest = evidence.thresholds.fewest_device_reads
    if read is None or wanted <= _ASIDE or read >= parse_percentage(fewest) * wanted:
        return None
    return (
        f"cold, yet only {human_size(read)} of {human_size(wanted)} came from storage (less than {fewest}): "
        "they were cached"
    )
