"""TPC-H's queries and reference answers: those of DuckDB's tpch extension, from its package on PyPI.

Query texts are the specification's with its validation parameters (clause 2.1.3.2 and each query's own), answers those
at the scale factors 0.01, 0.1 and 1. Nothing is fetched: the extension is a file of the package
`duckdb-extension-tpch`, signed by DuckDB, whose signature DuckDB checks when it loads it.
"""

import functools
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import HostError

QUERIES = range(1, 23)
# Columns of results, counted from 0, with random text: DuckDB's dbgen has other addresses and comments than the
# generator; everything else is equal (compared row by row at 0.01). For query 13, which counts comments, see
# `orders_by_customer`.
RANDOM_TEXT: Mapping[int, tuple[int, ...]] = {2: (5, 7), 10: (5, 7), 15: (2,), 20: (1,)}
# Columns of results, counted from 0, in the queries' ORDER BY, in its order.
ORDERED_BY: Mapping[int, tuple[int, ...]] = {
    1: (0, 1), 2: (0, 2, 1, 3), 3: (1, 2), 4: (0,), 5: (1,), 7: (0, 1, 2), 8: (0,), 9: (0, 1), 10: (2,), 11: (1,),
    12: (0,), 13: (1, 0), 15: (0,), 16: (3, 0, 1, 2), 18: (4, 3), 20: (0,), 21: (1, 0), 22: (0,),
}  # fmt: skip
_PACKAGE = "duckdb_extension_tpch"
# No extension is fetched, and none is loaded unless its path is given.
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",
}


@dataclass(frozen=True, slots=True)
class Known:
    """Query texts by number; answers by scale factor and number: the header's columns, then rows, all as text."""

    queries: Mapping[int, str]
    answers: Mapping[float, Mapping[int, tuple[tuple[str, ...], ...]]]

    def answer(self, scale: float, number: int) -> tuple[tuple[str, ...], ...] | None:
        """The rows of the reference answer, without the header; None at a scale that has none."""
        found = self.answers.get(scale)
        return None if found is None else found[number][1:]


@functools.cache
def known() -> Known:
    """Reads all of it once. Raises HostError when the package's extension is missing or DuckDB refuses it."""
    import duckdb

    extension = _extension(duckdb.__version__)
    try:
        with duckdb.connect(config=_CLOSED) as connection:
            connection.load_extension(str(extension))
            texts = connection.execute("SELECT query_nr, query FROM tpch_queries()").fetchall()
            reported = connection.execute("SELECT scale_factor, query_nr, answer FROM tpch_answers()").fetchall()
    except duckdb.Error as error:
        raise HostError(f"could not read TPC-H's queries from DuckDB: {str(error).splitlines()[0]}") from error
    answers: dict[float, dict[int, tuple[tuple[str, ...], ...]]] = {}
    for scale, number, text in reported:
        answers.setdefault(float(scale), {})[int(number)] = rows_of(str(text))
    queries = {int(number): str(text).strip().removesuffix(";") for number, text in texts}
    if set(queries) != set(QUERIES) or any(set(one) != set(QUERIES) for one in answers.values()):
        raise HostError("DuckDB's tpch extension does not have the 22 queries and their answers; reinstall octavo[lab]")
    return Known(queries, answers)


def rows_of(text: str) -> tuple[tuple[str, ...], ...]:
    """The rows of an answer: one row per line, the header first, values separated by strokes.

    >>> rows_of("a|b\\n1|x\\n")
    (('a', 'b'), ('1', 'x'))
    """
    return tuple(tuple(line.split("|")) for line in text.removesuffix("\n").split("\n"))


def _extension(version: str) -> Path:
    """The package's file for this version of DuckDB."""
    found = importlib.util.find_spec(_PACKAGE)
    places = (found.submodule_search_locations or []) if found is not None else []
    for place in places:
        file = Path(place) / "extensions" / f"v{version}" / "tpch.duckdb_extension"
        if file.is_file():
            return file
    raise HostError(
        f"no TPC-H extension for DuckDB {version} is installed; install duckdb-extension-tpch {version}, "
        "which octavo[lab] has"
    )
