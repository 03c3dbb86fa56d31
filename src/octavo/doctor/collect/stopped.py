"""The settings of a cluster that does not run, as `postgres -C` prints them."""

from pathlib import Path

from octavo.doctor.facts import Fact
from octavo.hugepages.stopped import asking
from octavo.postgres.versions import major_of

_MB = 1024**2
# postgres -C prints values in the unit of pg_settings: blocks, kB, MB or none.
_BYTES = {"shared_memory_size": _MB, "huge_page_size": 1024, "work_mem": 1024, "maintenance_work_mem": 1024,
          "autovacuum_work_mem": 1024, "wal_segment_size": 1, "max_wal_size": _MB}  # fmt: skip
_BLOCKS = ("shared_buffers", "effective_cache_size")
_WORDS = ("huge_pages", "shared_memory_type", "wal_compression")
_NUMBERS = ("max_connections", "autovacuum_max_workers", "block_size", "wal_block_size")
_REALS = ("random_page_cost", "seq_page_cost", "hash_mem_multiplier")
_FLAGS = ("full_page_writes", "data_checksums", "wal_recycle")


def stopped_facts(pgdata: Path, bindir: Path | None) -> list[Fact]:
    """The settings that rules use. Raises UsageError and HostError like `hugepages.stopped.asking`."""
    found: list[Fact] = []
    with asking(pgdata, bindir) as (ask, source):

        def add(name: str, value: object) -> None:
            found.append(Fact(f"setting.{name}", value, f"{source}: {name}"))

        block = int(ask("block_size", 0))
        for name in _NUMBERS:
            add(name, block if name == "block_size" else int(ask(name, 0)))
        for name, unit in _BYTES.items():
            number = int(ask(name, 0))
            add(name, number * unit if number >= 0 else number)  # -1: another setting's value
        for name in _BLOCKS:
            add(name, int(ask(name, 0)) * block)
        for name in _WORDS:
            add(name, ask(name, 0))
        for name in _REALS:
            add(name, float(ask(name, 0)))
        for name in _FLAGS:
            add(name, ask(name, 0) == "on")
        add("shared_memory_size_in_huge_pages", int(ask("shared_memory_size_in_huge_pages", 0)))
        version = ask("server_version", 0).split()[0]
    major = major_of(version)
    stopped = "the server does not run"
    return [
        *found,
        Fact("server.version", version, "postgres -C server_version"),
        Fact("server.version_number", major * 10000, "postgres -C server_version"),
        Fact("server.", absent=stopped),
        Fact("setting.", unknown=f"{stopped}, and this setting was not read"),
        Fact("host.process.", absent=stopped),
        Fact("live.", absent=stopped),
    ]
