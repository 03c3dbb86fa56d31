"""The factors that every workload has: PostgreSQL's builds and clusters, and the state of a run."""

from octavo.factor import Factor, one_of, size
from octavo.postgres.limits import DATA_BLOCKS, MAJOR_VERSIONS, WAL_BLOCKS, WAL_SEGMENTS

COMMON: tuple[Factor, ...] = (
    Factor("version", "build", "PostgreSQL's major version", MAJOR_VERSIONS[0], one_of(*MAJOR_VERSIONS)),
    Factor("data_block", "build", "data block (BLCKSZ)", "8kB", one_of(*DATA_BLOCKS)),
    Factor("wal_block", "build", "WAL block (XLOG_BLCKSZ)", "8kB", one_of(*WAL_BLOCKS)),
    Factor("wal_segment", "cluster", "WAL segment (initdb --wal-segsize)", "16MB", one_of(*WAL_SEGMENTS)),
    Factor("checksums", "cluster", "data checksums (initdb)", "on", one_of("on", "off")),
    Factor("recycled_wal", "cluster", "WAL in segments ready for reuse", "384MB", size("16MB", "1TB")),
    Factor("shared_buffers", "run", "PostgreSQL's own cache", "128MB", size("1MB", "1TB")),
    Factor("memory", "run", "memory limit of the server (cgroup; needs root)", "none", size("64MB", "1TB", "none")),
    Factor("cache", "run", "state of the caches when a trial starts", "warm", one_of("warm", "cold")),
    Factor("wal_regime", "run", "place in the checkpoint cycle", "after-checkpoint", one_of("after-checkpoint")),
)  # fmt: skip
