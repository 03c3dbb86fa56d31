"""A memory limit that did not hold for the page cache.

The cache is charged to the group that touches a page first (kernel Documentation/admin-guide/cgroup-v1/memory.rst), and
so is shared memory, which leaves less for it. Files that a process outside the group has read are cached beyond the
limit, and a cell "larger than memory" runs from memory.
"""

from octavo.lab.validity.evidence import Evidence
from octavo.units import human_size, parse_percentage

# Fewer requested bytes than this prove nothing.
_ASIDE = 16 * 1024**2


def judge(evidence: Evidence) -> str | None:
    """Invalid when more of the server's files is cached than `most_cached` of the limit less shared memory.

    If the kernel does not report cached pages, a cell larger than its limit is invalid if it read next to nothing: less
    than `fewest_device_reads` of what cannot have been cached, were its accesses uniform.
    """
    limit: int | None = evidence.facts.get("memory_limit_bytes")
    if limit is None or evidence.surroundings is None:
        return None
    cached = evidence.surroundings.cached_bytes
    if cached is None:
        return _read_nothing(evidence, limit)
    shared: int = evidence.facts.get("memory_limit_shared_bytes", 0)
    if cached <= parse_percentage(evidence.thresholds.most_cached) * max(0, limit - shared):
        return None
    beside = f", {human_size(shared)} of it taken by shared memory" if shared else ""
    outside = f"outside its memory limit of {human_size(limit)}{beside}"
    return f"{human_size(cached)} of the server's files are cached, {outside}"


def _read_nothing(evidence: Evidence, limit: int) -> str | None:
    read, database = evidence.read_bytes, evidence.facts.get("database_bytes", 0)
    if read is None or database <= limit:
        return None
    wanted = evidence.requested_bytes * (1 - limit / database)
    fewest = evidence.thresholds.fewest_device_reads
    if wanted <= _ASIDE or read >= parse_percentage(fewest) * wanted:
        return None
    return f"larger than its memory limit of {human_size(limit)}, yet only {human_size(read)} were read from storage"
