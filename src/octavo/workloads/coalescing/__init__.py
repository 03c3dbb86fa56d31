"""How blocks become requests: `octavo io` reads the blocks that PostgreSQL has listed.

The server is idle while `octavo io` reads its table's file, so it affects the numbers only by its own writes; the trial
fails if the file was written meanwhile.
"""

from dataclasses import replace

from octavo.factor import Factor, duration, one_of, size, whole_number
from octavo.io.policies import POLICIES
from octavo.observation import Metric, observe
from octavo.postgres.cluster import Server
from octavo.units import parse_duration, parse_size
from octavo.workloads.base import Levels, WorkloadResult
from octavo.workloads.coalescing import lists, reader

_WANTED = Metric("wanted_share", "share of the table's blocks that is read", "1")
_HINTED = Metric("first_dirtied", "blocks that the first scan after loading made dirty, before VACUUM", "1")
_DIRTIED = Metric("dirtied", "blocks that this scan made dirty after VACUUM, as the load is measured", "1", "lower")


class Coalescing:
    """One pattern of blocks of a table's file, read by one policy."""

    factors = (
        Factor(
            "pattern", "run", "blocks that are read: all in sequence, all in random order, random runs of 128 kB, or "
            "those that a bitmap heap scan of a share of the rows visits", "bitmap 1%",
            one_of("sequential", "random", "runs", *lists.SCANS),
        ),
        Factor("policy", "run", "how blocks become requests", "single", one_of(*POLICIES)),
        Factor("hole", "run", "largest gap, in blocks, that is read through", "0", whole_number(0, 4096)),
        Factor("max_request", "run", "largest combined request", "128kB", size("512B", "32MB")),
        Factor(
            "advice", "run", "posix_fadvise advice; random disables readahead",
            "normal", one_of("normal", "random", "sequential"),
        ),
        Factor("access", "run", "with the page cache, or direct I/O", "buffered", one_of("buffered", "direct")),
        Factor("table_size", "cluster", "size of the table", "256MB", size("1MB", "1TB")),
        Factor("duration", "run", "length of the measured run", "3s", duration(1, 86_400)),
    )  # fmt: skip
    metrics = (*reader.METRICS, _WANTED, _HINTED, _DIRTIED)

    def contents(self, levels: Levels) -> tuple[tuple[str, str], ...]:
        """The table's size; every load has the lists of all scans."""
        return (("workload", "coalescing"), ("table_size", levels["table_size"]))

    def fill(self, server: Server, levels: Levels, load: int = 1) -> None:
        """Makes the table, and the lists of the blocks that its scans visit."""
        lists.fill(server, parse_size(levels["table_size"]), load)

    def database_bytes(self, levels: Levels) -> int:
        """The approximate size of the table with its index."""
        return lists.database_bytes(parse_size(levels["table_size"]))

    def seconds_asked(self, levels: Levels) -> float:
        """The seconds of the duration."""
        return parse_duration(levels["duration"])

    def warm(self, server: Server, levels: Levels, seed: int) -> None:
        """Does nothing: the reader itself brings the page cache into the declared state."""

    def run(self, server: Server, levels: Levels, seed: int) -> WorkloadResult:
        """Runs the reader. Raises OctavoError when it fails, or when the file was written meanwhile."""
        files, block, table_blocks = lists.table(server)
        scan = lists.scan_of(server, levels["pattern"])
        server.disconnect()
        result = reader.read(server, files, scan.blocks if scan else (), block, levels, seed)
        if scan is None:
            return result
        noted = (
            observe(_WANTED, len(scan.blocks) / table_blocks),
            observe(_HINTED, scan.first_dirtied),
            observe(_DIRTIED, scan.dirtied),
        )
        return replace(result, observations=(*result.observations, *noted))


WORKLOAD = Coalescing()
