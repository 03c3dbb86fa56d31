"""The table that is scanned: rows of one length, with keys that select a given share of the rows.

A key is one of 10,000 values, so that `key < 10000 × share` is that share of the rows. The placement says where equal
keys are: in one stretch of the table, in stretches of a given size at random places, or each row by itself.
"""

import re

from octavo.errors import UsageError
from octavo.factor import Factor, size
from octavo.postgres.cluster import Server
from octavo.units import format_size, parse_percentage, parse_size
from octavo.workloads.base import Levels

KEYS = 10_000
# A tuple has a header of 24 bytes, 8 + 4 + 4 + 200 bytes, and its line pointer (PostgreSQL's manual, "Database Page
# Layout"): four of them fit into a block of 1 kB, 134 into one of 32 kB.
ROW_BYTES = 244
_FILLER = 200
# For the estimate: the unused space and headers of blocks, and an index without duplicates.
_OVERHEAD = 1.1
_MOST_STRETCH = "1GB"
_CLUSTERED, _SCATTERED = "clustered", "scattered"
# The scan whose index is a hash index instead of a B-tree.
HASH = "hash-index-scan"


def _placement(text: str) -> str:
    if text in (_CLUSTERED, _SCATTERED):
        return text
    match = re.fullmatch(r"stretches of (.+)", text.strip())
    try:
        return f"stretches of {format_size(stretch_bytes(text))}" if match else _refuse()
    except UsageError:
        return _refuse()


def _refuse() -> str:
    raise UsageError(f"allowed: {_CLUSTERED}, {_SCATTERED}, or stretches of 1kB to {_MOST_STRETCH} of rows")


def stretch_bytes(placement: str) -> int:
    """The bytes of neighbouring rows with the same key; 0 for a clustered table, which has one stretch per key.

    >>> stretch_bytes("stretches of 64kB"), stretch_bytes("scattered"), stretch_bytes("clustered")
    (65536, 244, 0)
    """
    if placement in (_CLUSTERED, _SCATTERED):
        return ROW_BYTES if placement == _SCATTERED else 0
    value = parse_size(placement.removeprefix("stretches of "))
    if not 1024 <= value <= parse_size(_MOST_STRETCH):
        raise UsageError(f"stretches of 1kB to {_MOST_STRETCH}")
    return value


FACTORS = (
    Factor("table", "cluster", "size of the table that is scanned", "512MB", size("1MB", "10TB")),
    Factor(
        "placement", "cluster", "placement of the selected rows: in one stretch, in stretches of a given size at "
        "random places, or scattered", _SCATTERED, _placement,
    ),
)  # fmt: skip


def rows_of(levels: Levels) -> int:
    """The number of rows of the table, the same at every block size."""
    return parse_size(levels["table"]) // ROW_BYTES


def bytes_of(levels: Levels) -> int:
    """The approximate size of table and index: an index entry has at most 16 bytes."""
    return int(rows_of(levels) * (ROW_BYTES * _OVERHEAD + 16)) + 16 * 1024**2


def keys_of(share: str) -> int:
    """The number of keys in a share such as `0.5%`.

    >>> keys_of("0.5%"), keys_of("100%")
    (50, 10000)
    """
    return round(parse_percentage(share) * KEYS)


def fill(server: Server, levels: Levels, load: int, *, scanned_before: bool) -> None:
    """Fills the table in the order of its blocks by one session, with its index and the answers for all shares.

    Unless `scanned_before` nothing reads the table: the index grows with it, and the answers come from the same
    numbers, so that the first scan after loading is a trial's. Stretches get keys from PostgreSQL's own hash of their
    number, seeded with the load: each load has its own places, and every block size has the same rows in the same
    order. Nothing is compressed or stored out of line.
    """
    rows = rows_of(levels)
    stretch = stretch_bytes(levels["placement"]) // ROW_BYTES
    key = f"(hashint8extended(n / {stretch}, {load}) & 2147483647) % {KEYS}" if stretch else f"n * {KEYS} / {rows}"
    server.execute("CREATE TABLE scanned (n bigint NOT NULL, key int NOT NULL, filler text NOT NULL)")
    server.execute("ALTER TABLE scanned ALTER COLUMN filler SET STORAGE PLAIN")
    numbers = f"generate_series(0, {rows - 1}::bigint) AS n"
    index = f"CREATE INDEX scanned_key ON scanned USING {'hash' if levels['query'] == HASH else 'btree'} (key)"
    if not scanned_before:
        server.execute(index)
    server.execute(
        f"INSERT INTO scanned SELECT n, {key}, repeat('x', {_FILLER}) FROM {numbers}"  # noqa: S608  # our numbers
    )
    if scanned_before:
        server.execute(index)
    server.execute(
        "CREATE TABLE answers AS SELECT key, count(*) AS rows "  # noqa: S608  # our numbers
        f"FROM (SELECT {key} AS key FROM {numbers}) AS made GROUP BY key"
    )
