"""The specification of a build: the factors that are fixed when PostgreSQL is compiled."""

from collections.abc import Callable
from dataclasses import dataclass

from octavo.units import parse_size

# The current stage, the completed steps, and their total.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """A requested build: a version (`18` or `18.6`), the sizes in PostgreSQL's notation, and how to compile it.

    `flags` go to the C compiler after our own, `options` to meson or configure after our own. `asserts` is an assertion
    build; `debug_symbols` keeps the symbols for debuggers and profilers. `traced` records page accesses when octavo
    trace requests it.
    """

    version: str
    data_block: str = "8kB"
    wal_block: str = "8kB"
    data_segment: str = "1GB"
    compiler: str = "gcc"
    flags: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    asserts: bool = False
    debug_symbols: bool = False
    traced: bool = False

    def __str__(self) -> str:
        return f"PostgreSQL {self.version} with {self.data_block} data and {self.wal_block} WAL blocks"

    @property
    def sizes(self) -> "Sizes":
        """The three sizes in bytes."""
        return Sizes(parse_size(self.data_block), parse_size(self.wal_block), parse_size(self.data_segment))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Data block, WAL block and data segment in bytes."""

    data_block: int
    wal_block: int
    data_segment: int

    @property
    def label(self) -> str:
        """A short name for directories, packages and tables, such as `b4w8`, with the segment unless it is 1 GB."""
        label = f"b{self.data_block // 1024}w{self.wal_block // 1024}"
        return label if self.data_segment == 1024**3 else f"{label}s{self.data_segment // 1024**3}"

    @property
    def macros(self) -> dict[str, int]:
        """The sizes as PostgreSQL's configuration writes them into pg_config.h (its meson.build and configure.ac).

        BLCKSZ and XLOG_BLCKSZ in bytes, RELSEG_SIZE in data blocks.
        """
        return {
            "BLCKSZ": self.data_block,
            "RELSEG_SIZE": self.data_segment // self.data_block,
            "XLOG_BLCKSZ": self.wal_block,
        }
