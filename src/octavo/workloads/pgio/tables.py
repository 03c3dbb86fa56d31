"""The tables of PGIO: one per schema, one row per block, and an index on a key unrelated to a row's position."""

from importlib import resources

from octavo.errors import OctavoError
from octavo.factor import Factor, size, whole_number
from octavo.postgres.cluster import Server
from octavo.units import human_size, parse_size
from octavo.workloads.base import Levels

# A row has an eighth of a block, so that a few new versions fit next to it (HOT), and with this fill factor no second
# row is put into a block (RelationGetBufferForTuple, src/backend/access/heap/hio.c).
_SHARE_OF_BLOCK = 8
_FILL_FACTOR = 10
# A tuple's header, key, number, and the header of its filler (PostgreSQL's manual, "Database Page Layout").
_ROW_HEADER = 24 + 8 + 4 + 4
# An index entry with its line pointer and the free space of a new leaf.
_ENTRY_BYTES = 23
_CATALOGS = 16 * 1024**2

FACTORS = (
    Factor("schemas", "cluster", "tables, each with sessions of its own (PGIO's NUM_SCHEMAS)", "4",
           whole_number(1, 8192)),
    Factor("scale", "cluster", "size of each schema's table, one row per block (PGIO's SCALE)", "256MB",
           size("1MB", "16TB")),
)  # fmt: skip


def contents(levels: Levels) -> tuple[tuple[str, str], ...]:
    """The factors that the tables depend on, besides the block size."""
    return (("workload", "pgio"), ("schemas", levels["schemas"]), ("scale", levels["scale"]))


def blocks_of(levels: Levels) -> int:
    """The blocks of a schema, which are also its rows."""
    return parse_size(levels["scale"]) // parse_size(levels["data_block"])


def database_bytes(levels: Levels) -> int:
    """The size of tables, indexes and the catalogs."""
    rows = blocks_of(levels)
    return int(levels["schemas"]) * (parse_size(levels["scale"]) + rows * _ENTRY_BYTES) + _CATALOGS


def fill(server: Server, levels: Levels, load: int) -> None:
    """Makes tables, indexes, and the functions that read and update them.

    A row's position is that of its key in the order of PostgreSQL's own hash, seeded with the load and the schema.
    Raises OctavoError when a table does not have one row per block.
    """
    rows, block = blocks_of(levels), parse_size(levels["data_block"])
    filler = block // _SHARE_OF_BLOCK - _ROW_HEADER
    functions = resources.files(__package__ or "").joinpath("functions.sql").read_text()
    for schema in range(1, int(levels["schemas"]) + 1):
        table = f"pgio{schema}"
        server.execute(
            f"CREATE TABLE {table} (mykey bigint NOT NULL, scratch int NOT NULL, filler text NOT NULL) "
            f"WITH (fillfactor = {_FILL_FACTOR})"
        )
        server.execute(f"ALTER TABLE {table} ALTER COLUMN filler SET STORAGE PLAIN")
        server.execute(
            f"INSERT INTO {table} SELECT mykey, 0, repeat('x', {filler}) "  # noqa: S608  # numbers of our own
            f"FROM (SELECT mykey FROM generate_series(1, {rows}::bigint) AS mykey "
            f"ORDER BY hashint8extended(mykey, {load * 10_000 + schema}), mykey) AS shuffled"
        )
        server.execute(f"CREATE INDEX {table}_mykey ON {table} (mykey)")
        server.execute(functions.replace("{schema}", str(schema)))
        found = server.connection.execute(f"SELECT pg_relation_size('{table}') AS bytes".encode()).fetchall()[0][
            "bytes"
        ]
        if found != rows * block:
            raise OctavoError(
                f"{table} has {human_size(found)} instead of {human_size(rows * block)}, one row per block"
            )
