"""Sessions that keep the memory of a query: a hash table of work_mem × hash_mem_multiplier, held by an open cursor.

PostgreSQL's manual, hash_mem_multiplier: hash-based operations may use work_mem times it; the rest is spilled. The hash
table of a GROUP BY lives as long as the portal is open (src/backend/executor/nodeAgg.c).
"""

import psycopg
from psycopg.rows import DictRow

from octavo.units import parse_size

# One group per row, with a whole row in each: the table is larger than any hash table may be.
_HASH = "DECLARE held NO SCROLL CURSOR FOR SELECT ctid, min(filling) FROM everything GROUP BY ctid"


def hash_memory(connection: psycopg.Connection[DictRow]) -> int:
    """The bytes that one hash table of a session may use: work_mem × hash_mem_multiplier, from the server's
    settings."""
    row = connection.execute(
        "SELECT current_setting('work_mem') AS memory, current_setting('hash_mem_multiplier')::float AS times"
    ).fetchone()
    assert row is not None
    return int(parse_size(row["memory"]) * row["times"])


def hold_hash_table(connection: psycopg.Connection[DictRow]) -> None:
    """Leaves a session in a transaction whose cursor has filled its hash table."""
    connection.execute("SET enable_sort = off")
    connection.execute("BEGIN")
    connection.execute(_HASH)
    connection.execute("FETCH 1 FROM held")
