"""Query 13's reference answer, computed from the generator's own rows.

Query 13 counts orders by the text of their comments, and DuckDB's reference answers belong to other comments (`known`).
So the answer is computed here, from the generator's rows, without a database.
"""

import csv
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator

from octavo.errors import OctavoError
from octavo.postgres.cluster import Server
from octavo.workloads.tpch import generator
from octavo.workloads.tpch.schema import ROWS

# The query's LIKE '%special%requests%'.
_LEFT_OUT = re.compile("special.*requests")
_answers: dict[str, tuple[tuple[str, str], ...]] = {}


def answer(server: Server, scale: str) -> tuple[tuple[str, str], ...]:
    """The number of customers by number of orders, sorted as by query 13. Computed once; takes seconds at scale factor
    1.

    Raises OctavoError when the generator fails.
    """
    if scale not in _answers:
        counts: array[int] = array("l", bytes(array("l").itemsize * (1 + round(ROWS["customer"] * float(scale)))))
        with (
            generator.lent_program(server) as program,
            generator.stream(server, program, ["orders"], scale) as orders,
            os.fdopen(os.dup(orders.pipe), newline="") as lines,
        ):
            try:
                count(csv.reader(lines), counts)
            except (ValueError, IndexError):  # it was cut off; why is known by the generator's exit
                orders.end()
                raise OctavoError(f"{generator.PROGRAM} ended in the middle of a row") from None
            orders.end()
        _answers[scale] = distribution(counts[1:])
    return _answers[scale]


def count(rows: Iterator[list[str]], counts: "array[int]") -> None:
    """Adds the orders to the counts by customer, but those that query 13 leaves out. Raises ValueError or IndexError
    when a row, or the header before the first one, is not whole."""
    header = next(rows, list[str]())
    customer, comment = header.index("o_custkey"), header.index("o_comment")
    for row in rows:
        if _LEFT_OUT.search(row[comment]) is None:
            counts[int(row[customer])] += 1


def distribution(counts: "array[int]") -> tuple[tuple[str, str], ...]:
    """The number of customers by number of orders: the most frequent first, then the most orders.

    >>> distribution(array("l", [0, 2, 0, 1, 2]))
    (('2', '2'), ('0', '2'), ('1', '1'))
    """
    found = Counter(counts).items()
    ordered = sorted(found, key=lambda pair: (-pair[1], -pair[0]))
    return tuple((str(orders), str(customers)) for orders, customers in ordered)
